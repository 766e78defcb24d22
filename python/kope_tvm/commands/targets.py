# SPDX-License-Identifier: Apache-2.0
"""`kope targets`: the known machines."""

from __future__ import annotations

from dataclasses import fields

import click

from kope_tvm.console import json_option, plain, show, table
from kope_tvm.machine import known_targets, load_target, read_target
from kope_tvm.target import TargetSpec


@click.command("targets", short_help="Show the known machines.")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """Show the known machines, or one in detail as TVM and LLVM accept it."""
    if name is not None:
        spec = load_target(name)
        show(spec, _detail(spec), as_json=as_json)
        return
    specs = [read_target(each) for each in known_targets()]
    show({"targets": specs}, _overview(specs), as_json=as_json)


def _overview(specs: list[TargetSpec]) -> str:
    rows = [
        (spec.name, spec.facts.isa, spec.facts.vlen_bits, spec.facts.num_cores, spec.summary)
        for spec in specs
    ]
    return table(("NAME", "ISA", "VLEN", "CORES", "WHAT"), rows)


def _detail(spec: TargetSpec) -> str:
    rows: list[tuple[str, object]] = [("name", spec.name), ("summary", spec.summary)]
    rows += [(f"target.{key}", plain(value)) for key, value in spec.tvm_target.items()]
    for title, record in (("facts", spec.facts), ("limits", spec.limits)):
        values = ((field.name, getattr(record, field.name)) for field in fields(record))
        rows += [(f"{title}.{key}", value or "unknown") for key, value in values]
    rows += [("rpc.key", spec.rpc_key or "none: this machine"), ("memory key", spec.key)]
    return table(("FIELD", "VALUE"), rows)
