# SPDX-License-Identifier: Apache-2.0
"""`kope device serve`: an emulated board, until Ctrl-C."""

from __future__ import annotations

import signal
import time

import click

from kope_tvm.device.place import parse_tracker
from kope_tvm.device.served import riscv_target
from kope_tvm.errors import KopeError, UsageError

_POLL_SECS = 0.5


@click.command("serve")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--emulate", is_flag=True, help="Without a board, under QEMU's user mode.")
@click.option(
    "--vlen-bits", type=int, default=0, help="Of the vector registers; else the target's."
)
@click.option("--tracker", metavar="HOST:PORT", help="One that runs; else one is started.")
def command(target: str, emulate: bool, vlen_bits: int, tracker: str | None) -> None:
    """Serve an emulated board and say how to reach it; Ctrl-C ends all."""
    if not emulate:
        raise UsageError(
            "a board serves itself: build its server with `kope device build`, start that there; "
            "--emulate serves one without hardware"
        )
    spec = riscv_target(target)
    place = parse_tracker(tracker) if tracker else None
    from kope_tvm.device.emulate import Options, emulated_board

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with emulated_board(spec, Options(vlen_bits=vlen_bits), tracker=place) as board:
        click.echo(f"{board.place} is up, emulated: wall time on it means nothing", err=True)
        click.echo(board.place.exports)
        while board.server.is_alive:
            time.sleep(_POLL_SECS)
    raise KopeError(f"{board.place}: its server ended by itself; its last lines say why")
