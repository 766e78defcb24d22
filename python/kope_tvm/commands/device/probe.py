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
@json_option
def command(target: str, tracker: str, as_json: bool) -> None:
    """Ask a board at a tracker for its vector length, caches, cores, governor and temperature."""
    spec = riscv_target(target)
    place = place_of(spec, tracker)
    if place is None:
        raise UsageError(f"no tracker: expected --tracker HOST:PORT, or {HOST} and {PORT} set")
    with work(as_json=as_json):
        from kope_tvm.device.probe import probe

        found = probe(place, spec)
    rows: list[tuple[str, object]] = [("board", str(place)), ("record key", spec.key)]
    rows += [(name, value or "unknown") for name, value in vars(found.facts).items()]
    rows += [("kernel", found.info.kernel), ("extensions", " ".join(found.extensions) or "unknown")]
    rows += [("governor", ", ".join(found.governors) or "unknown")]
    rows += [("celsius", ", ".join(map(str, found.temperatures_celsius)) or "unknown")]
    told = [f"differs: {each}" for each in found.differences]
    told += [found.notice] if found.notice else []
    show(found, "\n".join([table(("FIELD", "VALUE"), rows), *told]), as_json=as_json)
