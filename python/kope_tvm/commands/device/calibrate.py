# SPDX-License-Identifier: Apache-2.0
"""`kope device calibrate`: the simulated machine fitted to a board."""

from __future__ import annotations

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.device.place import HOST, PORT, place_of
from kope_tvm.device.served import riscv_target
from kope_tvm.errors import UsageError


@click.command("calibrate")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--tracker", default="", metavar="HOST:PORT", help=f"Default: {HOST}, {PORT}.")
@json_option
def command(target: str, tracker: str, as_json: bool) -> None:
    """Fit the simulated machine's weights to a board's times; kept for its core class."""
    spec = riscv_target(target)
    place = place_of(spec, tracker)
    if place is None:
        raise UsageError(f"no tracker: expected --tracker HOST:PORT, or {HOST} and {PORT} set")
    with work(as_json=as_json):
        from kope_tvm.device.calibrate import calibrate
        from kope_tvm.device.simulate.calibration import keep

        found = calibrate(place, spec, lambda text: click.echo(text, err=True))
        path = keep(found.calibration, spec)
    before, after = found.fit.before, found.fit.after
    rows: list[tuple[object, ...]] = [
        ("error", f"{before.error:.1%}", f"{after.error:.1%}"),
        ("rank correlation", f"{before.rank_correlation:.2f}", f"{after.rank_correlation:.2f}"),
    ]
    rows += [(name, "1.00", f"{value:.2f}") for name, value in vars(found.fit.weights).items()]
    text = (
        f"{len(found.kernels)} kernels on {place}\n{table(('', 'BEFORE', 'AFTER'), rows)}\n"
        f"{path}: times are from now on {found.calibration.mark}"
    )
    show(found, text, as_json=as_json)
