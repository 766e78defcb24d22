# SPDX-License-Identifier: Apache-2.0
"""What the knobs of a trace turn, in words: `tile of matmul loop 0` for its sampled split."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from kope_tvm.space import Space

_SAMPLES = "Sample"
_COPIES = ("CacheRead", "CacheWrite", "CacheIndex")


@lru_cache(maxsize=256)
def knob_names(trace: str) -> dict[int, str]:
    """Names by instruction index, as changes count knobs; those that can't be told are left out."""
    try:
        instructions, _ = json.loads(trace)
        return _Reader().read(instructions)
    except (ValueError, TypeError, LookupError, AttributeError):  # A plan, a script, a newer form.
        return {}


def knob_values(trace: str) -> tuple[str, ...]:
    """The values of all knobs in order; none where it is no trace."""
    try:
        return tuple(knob.shown for knob in Space("", trace).knobs)
    except (ValueError, TypeError, LookupError):
        return ()


class _Reader:
    """Goes through a trace once and keeps what its variables stand for."""

    def __init__(self) -> None:
        self._sampled: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._found: dict[int, str] = {}

    def read(self, instructions: list[Any]) -> dict[int, str]:
        for index, (kind, inputs, attrs, outputs) in enumerate(instructions):
            if kind.startswith(_SAMPLES):
                self._sampled.update(dict.fromkeys(outputs, index))
            self._note_use(kind, inputs, attrs)
            self._note_outputs(kind, inputs, attrs, outputs)
        return self._found

    def _note_use(self, kind: str, inputs: list[Any], attrs: list[Any]) -> None:
        for value in inputs:
            index = self._sampled.get(value) if isinstance(value, str) else None
            if index is not None and (what := self._use(kind, inputs, attrs)):
                self._found.setdefault(index, what)

    def _use(self, kind: str, inputs: list[Any], attrs: list[Any]) -> str:
        about = self._names.get(inputs[0], "")
        if kind == "Split":
            return f"tile of {about}" if about else ""
        if kind == "Annotate":
            return str(attrs[0]).rpartition(".")[2]
        if kind in ("ComputeAt", "ReverseComputeAt"):
            return f"place of {about}" if about else ""
        return ""

    def _note_outputs(
        self, kind: str, inputs: list[Any], attrs: list[Any], outputs: list[str]
    ) -> None:
        about = self._names.get(inputs[0], "") if inputs and isinstance(inputs[0], str) else ""
        if kind == "GetSBlock":
            self._names[outputs[0]] = str(attrs[0])
        elif kind in _COPIES and about:
            self._names[outputs[0]] = f"{about}'s {attrs[1]} copy"
        elif kind == "GetLoops" and about:
            self._names.update({loop: f"{about} loop {n}" for n, loop in enumerate(outputs)})
        elif kind == "Split" and about:
            self._names.update({loop: f"{about}.{n}" for n, loop in enumerate(outputs)})
        elif kind == "Fuse" and about:
            others = [self._names.get(loop, "?").rpartition(" ")[2] for loop in inputs[1:]]
            self._names[outputs[0]] = "+".join((about, *others))
