# SPDX-License-Identifier: Apache-2.0
"""`kope mlir export`: the fastest schedules as a transform script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.errors import StorageError, UsageError


@dataclass(frozen=True)
class Exported:
    """What was written."""

    file: str
    functions: tuple[str, ...]
    left_out: tuple[str, ...]
    checked: str


@click.command("export", short_help="Write what was learned as a transform script.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--work-dir", required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False))
@json_option
def command(file: Path, target: str, work_dir: Path, output: Path, as_json: bool) -> None:
    """Write the schedules of FILE.mlir for MLIR's transform interpreter."""
    check_files(file, work_dir)
    with work(as_json=as_json):
        from kope_tvm.machine import load_target
        from kope_tvm.mlir.exporting import export_script

        found = export_script(file, load_target(target), work_dir)
        write(output, found.text)
    done = Exported(str(output), found.functions, found.left_out, found.checked)
    lines = [done.file, done.checked, *(f"left out: {each}" for each in done.left_out)]
    show(done, "\n".join(lines), as_json=as_json)


def check_files(file: Path, work_dir: Path) -> None:
    """Raises UsageError where either is missing."""
    if not file.is_file():
        raise UsageError(f"{file}: no such file; expected linalg as .mlir")
    if not work_dir.is_dir():
        raise UsageError(f"--work-dir {work_dir}: no such folder; `kope mlir tune` makes it")


def write(output: Path, text: str) -> None:
    """Write a file; raises StorageError where that fails."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"--output {output}: cannot be written: {error}") from error
