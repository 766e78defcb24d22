# SPDX-License-Identifier: Apache-2.0
"""The documents say what the commands take."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kope_tvm.cli import main
from kope_tvm.manual import pages

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str = "") -> Iterator[tuple[str, str]]:
    for document in DOCUMENTS:
        for found, text in BLOCK.findall(document.read_text(encoding="utf-8")):
            if not language or found == language:
                yield document.name, text


def command_lines() -> Iterator[tuple[str, str]]:
    """What begins with `kope` in a block; a synopsis, with its brackets, is the manual's."""
    for name, text in blocks():
        for line in text.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").split("  #")[0].split(" # ")[0]
            if line.startswith("kope ") and not re.search(r"[\[\]{}|&]", line):
                yield name, line.replace("...", "").strip()


def test_the_pages_on_commands_are_the_parsers() -> None:
    kept = {path.name: path.read_text("utf-8") for path in (ROOT / "docs/commands").glob("*.md")}
    assert kept == pages(), "make docs"


@pytest.mark.parametrize(("document", "line"), sorted(set(command_lines())))
def test_every_command_in_the_documents_is_one_that_the_parser_takes(
    document: str, line: str
) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="kope")
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, f"{document}: {line}"
        context, command, words = click.Context(found, context, words[0]), found, words[1:]
    command.make_context(command.name or "", words, parent=context.parent)


@pytest.mark.parametrize(("document", "text"), [*blocks("python")])
def test_every_python_block_is_python(document: str, text: str) -> None:
    ast.parse(text, document)
