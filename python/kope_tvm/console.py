# SPDX-License-Identifier: Apache-2.0
"""What a command says and where: tables and JSON on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

import click

INTERRUPTED = 130
"""What a shell reports for a command that Ctrl-C ended."""

_JSON = "kope_tvm.json"


def _note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.meta[_JSON] = value
    return value


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=_note_json,
    help="Print one JSON object on stdout and nothing else there.",
)


def wants_json(ctx: click.Context) -> bool:
    """Whether the command that ran was given `--json`."""
    return bool(ctx.meta.get(_JSON))


def show(result: object, text: str, *, as_json: bool) -> None:
    """Print a result: as JSON, or in the words of `text`."""
    click.echo(json.dumps(plain(result), indent=1) if as_json else text)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligned columns that survive a pipe: nothing is cut or wrapped."""
    lines = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def plain(value: object) -> Any:
    """Dataclasses with their properties, as what JSON knows; infinity and NaN become null."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        names += [name for name, kind in vars(type(value)).items() if isinstance(kind, property)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


@contextmanager
def work(*, as_json: bool) -> Iterator[None]:
    """Where stdout belongs to one JSON object, send what libraries print there to stderr."""
    if not as_json:
        yield
    elif _is_descriptor_one():
        with _stderr_as_stdout():
            yield
    else:
        with redirect_stdout(sys.stderr):
            yield


def _is_descriptor_one() -> bool:
    try:
        return sys.stdout.fileno() == 1
    except (OSError, ValueError):
        return False


@contextmanager
def _stderr_as_stdout() -> Iterator[None]:
    """Also for C++ code and child processes, which know the descriptor only."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
