# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of a reply: which lanes, programs, knobs and values it may name.

Made of what the strictest servers take: closed objects whose properties are all required, and
enums instead of ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kope_tvm.prompt.knobs import plain_number
from kope_tvm.prompt.program import Program
from kope_tvm.prompt.view import View

_TEXT = {"type": "string"}
_MOST_VALUES = 40
"""Categorical values that are listed; more of them are any number."""


def reply_schema(view: View) -> dict[str, Any]:
    """The schema of a reply to the prompt of a view."""
    made = {"decisions": _decisions, "plan": _plan, "rewrite": _rewrite}
    lanes = [found for lane in view.lanes if lane in made for found in made[lane](view)]
    return _object(
        proposals={"type": "array", "items": {"anyOf": lanes} if lanes else _object()},
        stop={"type": "boolean"},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _lane(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return _object(lane={"type": "string", "enum": [name]}, why=_TEXT, **properties)


def _decisions(view: View) -> Iterator[dict[str, Any]]:
    tunable = [program for program in view.programs if program.space]
    names, values = _names(tunable, view), _values(tunable, view)
    if tunable and names:
        yield _lane(
            "decisions",
            **{"from": _choice([program.name for program in tunable])},
            values=_list(_object(knob=_choice(names), value={"anyOf": values})),
        )


def _plan(view: View) -> Iterator[dict[str, Any]]:
    yield _lane("plan", steps=_list(_TEXT))
    bases = [program.name for program in view.programs if program.space is None]
    if bases:
        yield _lane("plan", **{"from": _choice(bases)}, steps=_list(_TEXT))


def _rewrite(_: View) -> Iterator[dict[str, Any]]:
    yield _lane("rewrite", script=_TEXT, steps=_list(_TEXT))


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _choice(options: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(options)}


def _names(tunable: Sequence[Program], view: View) -> list[str]:
    lines = [line for one in tunable if one.space for line in view.notes.knob_lines(one.space)]
    return list(dict.fromkeys(line.name for line in lines))


def _values(tunable: Sequence[Program], view: View) -> list[dict[str, Any]]:
    """All values of categoricals; a tile is a list of integers; a location any integer."""
    knobs = [
        line.knob for one in tunable if one.space for line in view.notes.knob_lines(one.space)
    ]
    options = sorted({option for knob in knobs for option in knob.options})
    is_open = any(knob.kind == "SampleComputeLocation" for knob in knobs)
    kinds: list[dict[str, Any]] = []
    if is_open or len(options) > _MOST_VALUES:
        kinds.append({"type": "number"})
    elif options:
        whole = [int(plain_number(one)) if float(one).is_integer() else one for one in options]
        kinds.append({"type": "number", "enum": whole})
    if any(isinstance(knob.value, tuple) for knob in knobs):
        kinds.append(_list({"type": "integer"}))
    return kinds
