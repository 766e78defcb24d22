# SPDX-License-Identifier: Apache-2.0
"""Reads a model's reply: untrusted text in, proposals and named refusals out."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kope_tvm.outcome import Verdict, refuse
from kope_tvm.plan.steps import read_steps
from kope_tvm.prompt.json_text import UnreadableError, parsed
from kope_tvm.prompt.mechanism import steps_mechanism
from kope_tvm.prompt.setting import SettingError, turned
from kope_tvm.prompt.step_line import step_of
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    Rewrite,
    Step,
    proposal_from,
    proposal_text,
    with_origin,
)
from kope_tvm.space import Space, difference

MOST_PROPOSALS = 8
MAX_SCRIPT_CHARS = 20_000
_PIECE_CHARS = 2000
_WHY_CHARS = 100
_GATE = "reply"
_NO_ORIGIN = Origin("chat")


@dataclass(frozen=True)
class Refused:
    """A piece of the reply that was no proposal, and why."""

    verdict: Verdict
    piece: str = field(repr=False)
    """As JSON or text, cut where it is long."""


@dataclass(frozen=True)
class Reading:
    """What a reply said."""

    proposals: tuple[Proposal, ...] = ()
    refused: tuple[Refused, ...] = ()
    wants_stop: bool = False


def read_reply(
    text: str,
    states: Mapping[str, str],
    open_lanes: Collection[str],
    origin: Origin = _NO_ORIGIN,
) -> Reading:
    """The proposals of a reply to a prompt that named `states`; never raises.

    `origin` is what they have in common; its tokens, those of the call, are shared among them.
    """
    try:
        found_json = parsed(text)
        given, wants_stop = _pieces(found_json.value)
    except UnreadableError as error:
        return Reading(refused=(_refused(str(error), text),))
    reader = _Reader(states, open_lanes, replace(origin, tokens=0))
    cut = (
        [_refused("the reply was cut off here", given.pop())] if found_json.is_cut and given else []
    )
    found = [reader.read(piece) for piece in given[:MOST_PROPOSALS]]
    refused = [*(one for one in found if isinstance(one, Refused)), *cut]
    refused += [
        _refused(f"more than {MOST_PROPOSALS} proposals", p) for p in given[MOST_PROPOSALS:]
    ]
    proposals = [one for one in found if not isinstance(one, Refused)]
    return Reading(_charged(proposals, origin.tokens), tuple(refused), wants_stop)


def _pieces(found: Any) -> tuple[list[Any], bool]:
    """The proposals as JSON; a list of them, or one alone, will do."""
    if isinstance(found, list):
        return found, False
    wants_stop = found.get("stop") in (True, "true", "True")
    if "lane" in found:
        return [found], wants_stop
    given = found.get("proposals")
    if isinstance(given, dict):
        given = [given]
    if not isinstance(given, list):
        if wants_stop:
            return [], True
        raise UnreadableError('expected {"proposals": [...], "stop": ...}')
    return given, wants_stop


def _refused(reason: str, piece: Any, code: str = "E_REPLY") -> Refused:
    return Refused(refuse(_GATE, code, reason[:300]), _piece(piece))


def _piece(given: Any) -> str:
    if isinstance(given, str):
        return given[:_PIECE_CHARS]
    try:
        return json.dumps(given, separators=(",", ":"), default=str)[:_PIECE_CHARS]
    except (ValueError, RecursionError):
        return ""


def _charged(proposals: list[Proposal], tokens: int) -> tuple[Proposal, ...]:
    """Each with its share of the tokens; the first pays what does not divide."""
    share, rest = divmod(tokens, len(proposals)) if proposals else (0, 0)
    return tuple(
        with_origin(one, replace(one.origin, tokens=share + (rest if number == 0 else 0)))
        for number, one in enumerate(proposals)
    )


class _Reader:
    """Reads one piece after another; the same one twice is refused."""

    def __init__(
        self, states: Mapping[str, str], open_lanes: Collection[str], origin: Origin
    ) -> None:
        self._states = states
        self._open_lanes = open_lanes
        self._origin = origin
        self._said: dict[str, int] = {}
        self._count = 0

    def read(self, given: Any) -> Proposal | Refused:
        """The proposal of one piece."""
        self._count += 1
        if not isinstance(given, dict):
            return _refused(f"proposal {self._count}: expected an object", given)
        lane = _lane(given)
        readers = {"decisions": self._decisions, "plan": self._plan, "rewrite": self._rewrite}
        if lane not in readers or lane not in self._open_lanes:
            wanted = ", ".join(self._open_lanes)
            return _refused(
                f"lane {str(given.get('lane'))[:20]!r} is not open; open: {wanted}", given
            )
        try:
            found = readers[lane](given)
        except ValueError as error:
            return _refused(str(error), given)
        except (RecursionError, LookupError, TypeError) as error:
            return _refused(f"proposal {self._count}: {type(error).__name__}", given)
        if isinstance(found, Verdict):
            return Refused(found, _piece(given))
        return self._once(found, given)

    def _once(self, found: Proposal, given: Any) -> Proposal | Refused:
        before = self._said.setdefault(proposal_text(found), self._count)
        if before != self._count:
            return _refused(f"proposal {self._count} is proposal {before} again", given)
        return found

    def _state(self, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """The program that a proposal starts from, by name."""
        name = str(given.get("from", ""))[:40].strip()
        if name not in self._states:
            known = ", ".join(self._states) or "none"
            raise ValueError(f"from {name!r}: no such program; known: {known}")
        return name, json.loads(self._states[name])

    def _decisions(self, given: Mapping[str, Any]) -> Proposal:
        name, state = self._state(given)
        if state["lane"] != "decisions":
            raise ValueError(f"from {name}: it is a {state['lane']} and has no knobs")
        space = Space(state["space"], state["text"])
        try:
            found = turned(space, given.get("values", []))
        except SettingError as error:
            raise ValueError(f"decisions from {name}: {error}") from None
        is_same = [knob.value for knob in found.knobs] == [knob.value for knob in space.knobs]
        if is_same and state.get("state"):
            raise ValueError(f"decisions from {name}: nothing changes; {name} was measured already")
        change = f"{name} as it is" if is_same else difference(space, found)
        origin = replace(self._origin, parent=state.get("state", ""), change=change)
        return Decisions(space.name, found.trace, origin)

    def _plan(self, given: Mapping[str, Any]) -> Proposal | Verdict:
        steps = _steps(given.get("steps"))
        if isinstance(steps, Verdict):
            return steps
        origin = replace(self._origin, change=_change("plan", steps, given))
        if not given.get("from"):
            return Plan(steps, origin)
        name, state = self._state(given)
        origin = replace(origin, parent=state.get("state", ""))
        if state["lane"] == "decisions":
            raise ValueError(f"plan from {name}: leave out from, a plan starts untuned")
        parent = proposal_from(state["lane"], state["space"], state["text"], origin)
        if isinstance(parent, Plan):
            return Plan((*parent.steps, *steps), origin)
        assert isinstance(parent, Rewrite)
        return Rewrite(parent.script, Plan(steps, origin), origin)

    def _rewrite(self, given: Mapping[str, Any]) -> Proposal | Verdict:
        script = given.get("script")
        if not isinstance(script, str) or not script.strip():
            raise ValueError("rewrite: no script")
        if len(script) > MAX_SCRIPT_CHARS:
            raise ValueError(f"rewrite: {len(script)} characters, at most {MAX_SCRIPT_CHARS}")
        steps = _steps(given["steps"]) if given.get("steps") else ()
        if isinstance(steps, Verdict):
            return steps
        origin = replace(self._origin, change=_change("rewrite", steps, given))
        return Rewrite(script, Plan(steps, origin) if steps else None, origin)


def _lane(given: Mapping[str, Any]) -> str:
    """As it says, else as its fields show."""
    named = str(given.get("lane", "")).strip().lower()[:20]
    if named:
        return named
    return next(
        (
            lane
            for key, lane in (("script", "rewrite"), ("values", "decisions"), ("steps", "plan"))
            if key in given
        ),
        "",
    )


def _steps(given: Any) -> tuple[Step, ...] | Verdict:
    """Steps as lines or objects, also mixed, or as one text of lines."""
    if isinstance(given, str):
        given = [line for line in given[: 1 << 14].replace(";", "\n").splitlines() if line.strip()]
    if not isinstance(given, list):
        return read_steps(given)
    read: list[object] = []
    for number, one in enumerate(given, 1):
        try:
            read.append(step_of(one) if isinstance(one, str) else one)
        except ValueError as error:
            return refuse("plan", "E_STEP", f"step {number}: {error}")
    return read_steps(read)


def _change(lane: str, steps: tuple[Step, ...], given: Mapping[str, Any]) -> str:
    """What it does in words that may be shown to a model again."""
    why = "".join(c for c in str(given.get("why", ""))[:_WHY_CHARS] if c.isprintable())
    means = steps_mechanism(steps)
    if lane == "plan":
        return f"plan: {means}" + (f" ({why})" if why else "")
    return f"rewrite: {why or 'unexplained'}" + (f"; {means}" if means else "")
