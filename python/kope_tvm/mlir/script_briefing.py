# SPDX-License-Identifier: Apache-2.0
"""What a model is told of a function that it may propose scripts for, under a limit of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kope_tvm.mlir.function import Function
from kope_tvm.mlir.script_proposers import ScriptTrial
from kope_tvm.prompt.brief import Brief, packed_brief
from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.packing import Part

LIMIT_TOKENS = 2500
"""For system, prompt and schema together."""
REPLY_TOKENS = 600
_REASON_CHARS = 300
_TOLD_CHARS = 80


def _closed(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TILES = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
_RECIPE = _closed(outer=_TILES, inner=_TILES, fuse_elementwise={"type": "boolean"})
_KINDS = [_closed(recipe=_RECIPE), _closed(script={"type": "string"})]
_SCHEMA = _closed(proposals={"type": "array", "items": {"anyOf": _KINDS}})


class ScriptBriefing:
    """Makes the briefs of one function."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def proposal(
        self, trials: Sequence[ScriptTrial], wanted: int, limit_tokens: int
    ) -> Brief | None:
        """The brief of a round; None where what it cannot go without is more than the limit."""
        parts = [
            _system("script_system"),
            Part("machine", "Machine", (required(self._machine()),)),
            Part("function", "Function", (required(self._function.text.strip()),)),
            Part("ops", "Ops that are tiled, in program order", (required(self._ops()),)),
            Part("tried", "Tried", tuple(_tried(trials))),
            Part("wanted", "Wanted", (required(f"Up to {wanted} others, the best first."),)),
        ]
        return _packed(parts, limit_tokens)

    def repair(self, failed: ScriptTrial, limit_tokens: int) -> Brief | None:
        """Ask for another go at a trial that failed: code, number and place, and what it said."""
        said = failed.proposal.script.strip() or failed.proposal.text()
        parts = [
            _system("script_mend"),
            Part(
                "failure",
                "How it failed",
                (required(f"{failed.code} {failed.reason[:_REASON_CHARS]}"),),
            ),
            Part("proposed", "What was proposed", (required(said),)),
        ]
        return _packed(parts, limit_tokens)

    def _machine(self) -> str:
        facts = self._function.bench.task.target.facts
        default_ms = self._function.proof.baseline_secs * 1e3
        return (
            f"{facts.isa}: vectors of {facts.vlen_bits} bits, {facts.vector_registers} registers; "
            f"one thread. MLIR's default lowering takes {default_ms:.4g} ms."
        )

    def _ops(self) -> str:
        return "\n".join(
            f"{number}. {op.name} {'x'.join(map(str, op.extents))}, "
            f"reduces {', '.join(map(str, op.reduced)) or 'nothing'}"
            for number, op in enumerate(self._function.space.ops.fed)
        )


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def _system(name: str) -> Part:
    return Part("contract", "", (required(f"{_text(name)}\n{_text('script_formats')}"),))


def _packed(parts: Sequence[Part], limit_tokens: int) -> Brief | None:
    found = packed_brief(parts, _SCHEMA, {}, max(limit_tokens, 0))
    is_whole = "required" not in found.dropped_tokens and found.tokens_bound <= limit_tokens
    return found if is_whole else None


def _tried(trials: Sequence[ScriptTrial]) -> Iterator[Item]:
    """The fastest first, then what failed, the latest first."""
    right = sorted((one for one in trials if one.measurement.ok), key=lambda one: one.secs)
    failed = [one for one in reversed(trials) if not one.measurement.ok and not one.suspicious]
    for value, found in ((100.0, right), (60.0, failed)):
        for rank, trial in enumerate(found):
            yield Item(f"{_told(trial)}: {trial.proposal.text()}", value / (1 + rank))


def _told(trial: ScriptTrial) -> str:
    is_right = trial.measurement.ok
    return (
        f"{trial.secs * 1e3:.4g} ms" if is_right else f"{trial.code} {trial.reason[:_TOLD_CHARS]}"
    )
