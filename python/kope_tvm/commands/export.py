# SPDX-License-Identifier: Apache-2.0
"""`kope export`: a compiled model as files for programs that know nothing of TVM."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from kope_tvm import registry
from kope_tvm.commands.tune import parse_dims
from kope_tvm.console import json_option, show, work
from kope_tvm.errors import StorageError, UsageError


@dataclass(frozen=True)
class Exported:
    """What was written."""

    kind: str
    name: str
    folder: str
    made_by: tuple[str, ...]
    files: tuple[str, ...]
    """Relative to the folder."""


class _Command(click.Command):
    """Tells the kinds in their files' own words, which it reads without importing TVM."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Kinds"):
            formatter.write_dl([(name, _described(name)) for name in registry.names("exporters")])


def _described(kind: str) -> str:
    """The first sentence of an exporter's file; nothing of one from elsewhere."""
    found = find_spec(f"kope_tvm.exporters.{kind}")
    if found is None or found.origin is None:
        return "from another package"
    text = Path(found.origin).read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)) or ""


@click.command("export", cls=_Command, short_help="Write a model for programs without TVM.")
@click.argument("kind", type=click.Choice(registry.names("exporters")))
@click.argument("model")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--work-dir", type=click.Path(path_type=Path), help="Without it, nothing is tuned.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", default="", help="What the files and functions are called.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Bind a dynamic dimension.")
@json_option
def command(
    kind: str,
    model: str,
    target: str,
    work_dir: Path | None,
    output: Path,
    name: str,
    dims: Sequence[str],
    as_json: bool,
) -> None:
    """Write MODEL, compiled with what WORK_DIR has learned, as KIND into a folder."""
    bound = parse_dims(dims)
    called = _checked(name) if name else _name_of(model)
    if work_dir is not None and not work_dir.is_dir():
        raise UsageError(f"--work-dir {work_dir}: no such folder; `kope tune` makes it")
    with work(as_json=as_json):
        done = _export(_Order(kind, model, target, called), work_dir, output, bound)
    show(done, _spell(done), as_json=as_json)


@dataclass(frozen=True)
class _Order:
    """What is to be made of what."""

    kind: str
    model: str
    target: str
    name: str


def _export(order: _Order, work_dir: Path | None, output: Path, dims: dict[str, int]) -> Exported:
    from kope_tvm.exporting import exportable
    from kope_tvm.machine import load_target
    from kope_tvm.model import load_model

    exporter = registry.load("exporters", order.kind)
    output = output.resolve()
    found = exportable(load_model(order.model, dims=dims), load_target(order.target), work_dir)
    try:
        output.mkdir(parents=True, exist_ok=True)
        files = exporter(order.name, found.evidence).export(found.artifact, output)
    except OSError as error:
        raise StorageError(f"--output {output}: cannot be written: {error}") from error
    names = tuple(str(file.relative_to(output)) for file in files)
    return Exported(order.kind, order.name, str(output), found.evidence.made_by, names)


def _name_of(model: str) -> str:
    """`op:matmul:m=4` is matmul, a file is its stem."""
    from kope_tvm.c_package.identifier import identifier

    return identifier(model.split(":")[1] if model.startswith("op:") else Path(model).stem)


def _checked(name: str) -> str:
    from kope_tvm.c_package.identifier import identifier

    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or identifier(name) != name:
        raise UsageError(f"--name {name!r}: expected a name that C accepts, as {identifier(name)}")
    return name


def _spell(done: Exported) -> str:
    return "\n".join([*(f"{done.folder}/{file}" for file in done.files), *done.made_by])
