# SPDX-License-Identifier: Apache-2.0
"""`kope mlir apply`: an MLIR file with the fastest schedules applied."""

from __future__ import annotations

from pathlib import Path

import click

from kope_tvm.commands.mlir.export import check_files, write


@click.command("apply", short_help="Apply what was learned to a file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--work-dir", required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: stdout."
)
def command(file: Path, target: str, work_dir: Path, output: Path | None) -> None:
    """Write FILE.mlir as it is after its transform script."""
    check_files(file, work_dir)
    from kope_tvm.machine import load_target
    from kope_tvm.mlir.exporting import applied, export_script

    found = export_script(file, load_target(target), work_dir)
    text = applied(file.read_text(encoding="utf-8"), found.text, str(file))
    if output is None:
        click.echo(text)
    else:
        write(output, text)
