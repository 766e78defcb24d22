# SPDX-License-Identifier: Apache-2.0
"""The machine in one card: vector unit, caches, cores, measured peaks."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.amounts import shown_bytes, shown_count
from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.view import View
from kope_tvm.target import Facts, TargetSpec

ORDER = 10
TITLE = "Machine"
_FLOAT32_BITS = 32


def items(view: View) -> Iterator[Item]:
    """Facts that are unknown are not mentioned."""
    yield required("; ".join(_card(view.context.task.target)))


def _card(target: TargetSpec) -> Iterator[str]:
    facts = target.facts
    cores = f"{facts.num_cores} core{'s' if facts.num_cores != 1 else ''}"
    yield f"{target.tvm_target.get('kind', '')} {target.tvm_target.get('mcpu', '')}, {cores}"
    yield from _vectors(facts)
    caches = (("L1", facts.l1_bytes), ("L2", facts.l2_bytes), ("L3", facts.l3_bytes))
    shown = [f"{level} {shown_bytes(size)}" for level, size in caches if size]
    if shown:
        yield ", ".join(shown)
    if facts.peak_flops:
        yield f"peak {shown_count(facts.peak_flops)}FLOP/s float32"
    if facts.peak_bytes_per_sec:
        yield f"memory {shown_count(facts.peak_bytes_per_sec)}B/s"


def _vectors(facts: Facts) -> Iterator[str]:
    if facts.vlen_bits:
        lanes = facts.vlen_bits // _FLOAT32_BITS
        yield (
            f"{facts.isa}: {facts.vector_registers} registers of {lanes} float32 "
            f"({facts.vlen_bits} bits)"
        )
