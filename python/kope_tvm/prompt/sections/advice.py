# SPDX-License-Identifier: Apache-2.0
"""What makes functions of this class fast on this machine, in its own numbers, and an example."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.amounts import shown_bytes
from kope_tvm.prompt.item import Item
from kope_tvm.prompt.texts import filled, text
from kope_tvm.prompt.view import View
from kope_tvm.target import Facts
from kope_tvm.task import Features

ORDER = 30
TITLE = "What matters here"
_FAMILIES = {
    "matmul": "contraction",
    "conv2d": "contraction",
    "depthwise": "window",
    "pool": "window",
    "softmax": "rows",
    "norm": "rows",
    "reduce": "rows",
}
_MANY_PASSES = 4
"""Blocks from which on a contraction is one pass of several, as in attention."""
_BITS = {"float64": 64, "int64": 64}
_DEFAULT_LANES, _DEFAULT_REGISTERS = 4, 16


def items(view: View) -> Iterator[Item]:
    """The family's advice line by line, and a plan of such a function where plans are promising."""
    features, facts = view.context.task.features, view.context.task.target.facts
    family = _FAMILIES.get(features.op_class, "elementwise")
    values = _values(features, facts)
    lines = filled(f"advice_{family}", **values).splitlines()
    if family == "contraction" and features.num_blocks >= _MANY_PASSES:
        lines.insert(0, filled("advice_passes", **values))
    for number, line in enumerate(lines):
        yield Item(line, value=120 / (1 + number / 4))
    name = f"example_{features.op_class if features.op_class == 'matmul' else family}"
    if "plan" in view.main_lanes and text(name):
        yield Item(filled(name, **values), value=300)


def _values(features: Features, facts: Facts) -> dict[str, object]:
    bits = _BITS.get(features.dtypes[-1] if features.dtypes else "", 32)
    lanes = max(facts.vlen_bits // bits, 1) if facts.vlen_bits else _DEFAULT_LANES
    registers = facts.vector_registers or _DEFAULT_REGISTERS
    vectors = 2 if registers >= _DEFAULT_REGISTERS else 1
    rows = max((registers - vectors - 1) // vectors // 2, 1) if registers > 16 else 6
    return {
        "lanes": lanes,
        "wide": 4 * lanes,
        "registers": registers,
        "rows": rows,
        "vectors": vectors,
        "half_l2": shown_bytes(facts.l2_bytes // 2) if facts.l2_bytes else "half of L2",
        "l1": shown_bytes(facts.l1_bytes) if facts.l1_bytes else "L1",
        "cores": facts.num_cores,
        "blocks": features.num_blocks,
    }
