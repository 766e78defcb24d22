# SPDX-License-Identifier: Apache-2.0
"""`kope device probe`: what a board is."""

from __future__ import annotations

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.device.place import HOST, PORT, place_of
from kope_tvm.device.served import riscv_target
from kope_tvm.errors import UsageError


@click.command("probe")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--tracker", default="", metavar="HOST:PORT", help=f"Default: {HOST}, {PORT}.")
@click.option("--simulated-roofs", is_flag=True, help="Also of a simulated board: minutes.")
@json_option
def command(target: str, tracker: str, simulated_roofs: bool, as_json: bool) -> None:
    """Ask a board at a tracker for what it is and, where a clock tells its time, can do at most."""
    spec = riscv_target(target)
    place = place_of(spec, tracker)
    if place is None:
        raise UsageError(f"no tracker: expected --tracker HOST:PORT, or {HOST} and {PORT} set")
    with work(as_json=as_json):
        from kope_tvm.boards import SIMULATED, Met
        from kope_tvm.device.probe import probe
        from kope_tvm.device.roofs import board_roofs

        found = probe(place, spec)
        mark = SIMULATED if found.info.timer else ""
        wanted = simulated_roofs if mark else found.info.tells_time
        roofs = board_roofs(Met(place, mark), spec) if wanted else None
    rows: list[tuple[str, object]] = [("board", str(place)), ("record key", spec.key)]
    rows += [(name, value or "unknown") for name, value in vars(found.facts).items()]
    rows += [("kernel", found.info.kernel), ("extensions", " ".join(found.extensions) or "unknown")]
    rows += [("governor", ", ".join(found.governors) or "unknown")]
    rows += [("celsius", ", ".join(map(str, found.temperatures_celsius)) or "unknown")]
    told = [f"differs: {each}" for each in found.differences]
    told += [found.notice] if found.notice and roofs is None else []
    if roofs is not None:
        rows += roofs.rows
        told += [f"rates: {roofs.mark}"] if roofs.mark else []
    show(
        {"board": found, "roofs": roofs},
        "\n".join([table(("FIELD", "VALUE"), rows), *told]),
        as_json=as_json,
    )
