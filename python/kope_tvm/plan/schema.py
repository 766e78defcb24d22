# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of one step, for servers that hold a model to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.s_tir import Schedule

from kope_tvm.plan.nest import realizes
from kope_tvm.plan.primitives import primitives

_TEXT = {"type": "string"}
_NAMES = {"type": "array", "items": _TEXT}
_INTEGER = {"type": "integer"}
_INTEGERS = {"type": "array", "items": _INTEGER}
_SHAPES: dict[str, dict[str, Any]] = {
    "loops": _NAMES,
    "factors": _INTEGERS,
    "padding": _INTEGERS,
    "into": {"type": ["string", "array"], "items": _TEXT},
    "value": {"type": ["integer", "array"], "items": _INTEGER},
    "axis": _INTEGER,
    "factor": _INTEGER,
    "offset": _INTEGER,
    "pad": {"type": "number"},
}
"""Of the arguments that are no text."""


def step_schema(block_names: Sequence[str] = ()) -> dict[str, Any]:
    """The schema of one step; without names a block may be called anything."""
    table = primitives()
    names = sorted({one.name for primitive in table.values() for one in primitive.arguments})
    shapes = {name: _SHAPES.get(name, _TEXT) for name in names}
    if block_names:
        shapes["block"] = shapes["of"] = {"enum": list(block_names)}
    return {
        "type": "object",
        "properties": {"do": {"enum": list(table)}, **shapes},
        "required": ["do", "block"],
        "additionalProperties": False,
    }


def addressable(sch: Schedule) -> tuple[str, ...]:
    """Names of a schedule's blocks and of those that steps can make of them, unless by `into`."""
    blocks = [one.block for one in realizes(sch.mod["main"])]
    regions = [region for block in blocks for region in (*block.reads, *block.writes)]
    copies = [f"{region.source.name}_global" for region in regions]
    parts = [f"{one.name_hint}_{part}" for one in blocks if one.init for part in ("init", "rf")]
    return tuple(dict.fromkeys([*(str(one.name_hint) for one in blocks), *copies, *parts]))
