# SPDX-License-Identifier: Apache-2.0
"""`kope device build`: the one file to copy to a board."""

from __future__ import annotations

from pathlib import Path

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.device.build import build_server
from kope_tvm.device.served import riscv_target


@click.command("build")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("kope-server"),
    show_default=True,
    help="A file, or a folder that exists.",
)
@click.option(
    "--tvm-source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="A whole checkout of TVM instead of the installed wheels.",
)
@json_option
def command(target: str, output: Path, tvm_source: Path | None, as_json: bool) -> None:
    """Cross-build the RPC server of a board, of this machine's TVM versions."""
    spec = riscv_target(target)
    with work(as_json=as_json):
        server = build_server(output, tvm_source, _progress)
    size_bytes = server.stat().st_size
    text = (
        f"{server} ({size_bytes >> 10} KiB); copy it to the board and start it there with\n"
        f"  ./{server.name} --key {spec.rpc_key} --tracker THIS-MACHINE:9190"
    )
    show({"server": str(server), "bytes": size_bytes, "key": spec.rpc_key}, text, as_json=as_json)


def _progress(done: int, num_all: int, name: str) -> None:
    click.echo(f"[{done}/{num_all}] {name}", err=True)
