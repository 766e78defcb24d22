# SPDX-License-Identifier: Apache-2.0
"""What a proposer may say: values for a design space, schedule steps, or a whole function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Repair:
    """Which failed trial a proposal mends."""

    state: str
    """Of the failed trial."""
    turn: int
    """1 for the first attempt at it."""
    signature: str
    """The failure in a form that is equal where the fault is, e.g. `E_NUMERICS C tail`."""


@dataclass(frozen=True)
class Origin:
    """Who proposed, from what, and why."""

    proposer: str
    parent: str = ""
    """State (candidate key) it was derived from; empty where it starts from the untuned
    function.
    """
    change: str = ""
    """The difference to the parent in words, e.g. `v5 [1, 1, 64, 8] -> [1, 2, 32, 8]`."""
    cites: tuple[str, ...] = ()
    """Experiences it was conditioned on."""
    tokens: int = 0
    repair: Repair | None = None
    source: str = ""
    """Key of the experience of another task or machine that it was carried over from; empty for
    none.
    """
    relative: str = ""
    """What was carried over, in units of the hardware."""


@dataclass(frozen=True)
class Decisions:
    """Values for the sampling instructions of a design space: legal by construction."""

    space: str
    """`rule:<name>` or `sketch`."""
    trace: str = field(repr=False)
    """A trace as JSON (`Trace.as_json`), decisions included; it replays on the untuned function."""
    origin: Origin = field(default_factory=lambda: Origin("unknown"))


@dataclass(frozen=True)
class Step:
    """One schedule primitive, addressed by block and loop names."""

    primitive: str
    args: Mapping[str, object]


@dataclass(frozen=True)
class Plan:
    """Schedule primitives applied in order to the untuned function."""

    steps: tuple[Step, ...]
    origin: Origin = field(default_factory=lambda: Origin("unknown"))


@dataclass(frozen=True)
class Rewrite:
    """A whole function in TVMScript with the task's signature, and how it is scheduled."""

    script: str = field(repr=False)
    then: Decisions | Plan | None = None
    """Applied to the rewritten function; None leaves it as written."""
    origin: Origin = field(default_factory=lambda: Origin("unknown"))


Proposal = Decisions | Plan | Rewrite


def lane_of(proposal: Proposal) -> str:
    """`decisions`, `plan` or `rewrite`."""
    return type(proposal).__name__.lower()


def space_of(proposal: Proposal) -> str:
    """The design space of decisions; empty in the other lanes."""
    return proposal.space if isinstance(proposal, Decisions) else ""


def proposal_text(proposal: Proposal) -> str:
    """The part of a proposal that replays it: a trace, or steps or a script as JSON."""
    if isinstance(proposal, Decisions):
        return proposal.trace
    if isinstance(proposal, Plan):
        steps = [{"do": step.primitive, **step.args} for step in proposal.steps]
        return json.dumps(steps, separators=(",", ":"))
    then = proposal.then and {
        "lane": lane_of(proposal.then),
        "space": space_of(proposal.then),
        "text": proposal_text(proposal.then),
    }
    return json.dumps({"script": proposal.script, "then": then}, separators=(",", ":"))


def proposal_from(lane: str, space: str, text: str, origin: Origin) -> Proposal:
    """What `proposal_text` wrote; raises ValueError where it wrote nothing like this."""
    if lane == "decisions":
        return Decisions(space, text, origin)
    try:
        given = json.loads(text)
        if lane == "plan":
            return Plan(tuple(_step(row) for row in given), origin)
        then = given["then"] and proposal_from(**given["then"], origin=origin)
        return Rewrite(given["script"], _scheduling(then), origin)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a {lane}: {text[:80]!r}") from error


def _scheduling(proposal: Proposal | None) -> Decisions | Plan | None:
    if isinstance(proposal, Rewrite):
        raise TypeError("a rewrite within a rewrite")
    return proposal


def _step(row: Mapping[str, object]) -> Step:
    return Step(str(row["do"]), {name: value for name, value in row.items() if name != "do"})


def with_origin(proposal: Proposal, origin: Origin) -> Proposal:
    """The same proposal by somebody else."""
    return replace(proposal, origin=origin)
