# SPDX-License-Identifier: Apache-2.0
"""The pages on commands, made from the parser: `python -m kope_tvm.manual docs/commands`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kope_tvm.cli import main

_COLUMNS = 100
_HEAD = "<!-- Made by `make docs` from the parser; what is written here by hand is lost. -->\n"


def pages() -> dict[str, str]:
    """Markdown by file name: one page a command, its subcommands on it, and a list of them all."""
    top = _context(main, "kope", None)
    found = {f"{name}.md": _page(top, name) for name in main.list_commands(top)}
    rows = (f"| [`kope {name}`]({name}.md) | {_short(top, name)} |" for name in _names(top))
    head = f"{_HEAD}# The command `kope`\n\n| command | what it does |\n|---|---|\n"
    return {"README.md": head + "\n".join(rows) + "\n", **found}


def _page(top: click.Context, name: str) -> str:
    texts = [f"{title}\n\n```\n{text}\n```\n" for title, text in _helps(top, name, "#")]
    return _HEAD + "\n".join(texts)


def _helps(parent: click.Context, name: str, level: str) -> Iterator[tuple[str, str]]:
    command = _command(parent, name)
    context = _context(command, name, parent)
    yield f"{level} `{context.command_path}`", command.get_help(context)
    for below in _names(context):
        yield from _helps(context, below, level + "#")


def _names(context: click.Context) -> list[str]:
    group = context.command
    return group.list_commands(context) if isinstance(group, click.Group) else []


def _short(context: click.Context, name: str) -> str:
    return _command(context, name).get_short_help_str(limit=_COLUMNS)


def _command(context: click.Context, name: str) -> click.Command:
    group = context.command
    found = group.get_command(context, name) if isinstance(group, click.Group) else None
    assert found is not None
    return found


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(
        command,
        parent,
        name,
        terminal_width=_COLUMNS,
        max_content_width=_COLUMNS,
        help_option_names=["-h", "--help"],
    )


def write(folder: Path) -> None:
    """Write the pages; those of commands that are no more are deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for stale in {path.name for path in folder.glob("*.md")} - set(made):
        (folder / stale).unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
