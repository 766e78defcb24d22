# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of a reply: which lanes, programs, knobs and values it may name.

Made of what the strictest servers take: closed objects whose properties are all required, and
enums instead of ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from kope_tvm.prompt.knobs import plain_number
from kope_tvm.prompt.notes import Notes
from kope_tvm.prompt.program import Program
from kope_tvm.space import Knob

_TEXT = {"type": "string"}
_MOST_VALUES = 40
"""Categorical values that are listed; more of them are any number."""


def reply_schema(
    open_lanes: Collection[str], programs: Sequence[Program], notes: Notes
) -> dict[str, Any]:
    """The schema of a reply in these lanes that may name these programs."""
    lanes = [*_decisions(open_lanes, programs, notes), *_steps(open_lanes, programs)]
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


def _decisions(
    open_lanes: Collection[str], programs: Sequence[Program], notes: Notes
) -> Iterator[dict[str, Any]]:
    tunable = [program for program in programs if program.space]
    lines = [line for one in tunable if one.space for line in notes.knob_lines(one.space)]
    if "decisions" in open_lanes and lines:
        names = list(dict.fromkeys(line.name for line in lines))
        values = _values([line.knob for line in lines])
        yield _object(
            lane=_choice(["decisions"]),
            why=_TEXT,
            **{"from": _choice([program.name for program in tunable])},
            values=_list(_object(knob=_choice(names), value={"anyOf": values})),
        )


def _steps(open_lanes: Collection[str], programs: Sequence[Program]) -> Iterator[dict[str, Any]]:
    """Plans and rewrites in one: a plan leaves out the script, or names what its steps go on."""
    lanes = [lane for lane in open_lanes if lane in ("plan", "rewrite")]
    if not lanes:
        return
    fields: dict[str, dict[str, Any]] = {"lane": _choice(lanes), "why": _TEXT}
    bases = [program.name for program in programs if program.space is None]
    if bases:
        fields["from"] = _choice(["", *bases])
    if "rewrite" in lanes:
        fields["script"] = _TEXT
    yield _object(**fields, steps=_list(_TEXT))


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _choice(options: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(options)}


def _values(knobs: Sequence[Knob]) -> list[dict[str, Any]]:
    """All values of categoricals; a tile is a list of integers; a location any integer."""
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
