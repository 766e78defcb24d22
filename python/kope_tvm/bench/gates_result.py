# SPDX-License-Identifier: Apache-2.0
"""What became of right programs at the gates, and what the gates cost, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from kope_tvm.console import table

UNANSWERED = frozenset({"E_BUILD", "E_DEVICE", "E_TIMEOUT"})
"""A program that did not come to an answer; every other code calls it wrong."""


@dataclass(frozen=True)
class Cost:
    """Wall seconds of one trial of an ordinary round, by what they went to."""

    own_secs: float
    """Drawing the program and applying it."""
    static_secs: float
    device_secs: float
    """Building, checking and timing: the round's wall time over its trials."""
    check_secs: float
    """Of those, what comparing outputs took."""

    @property
    def wall_secs(self) -> float:
        return self.own_secs + self.static_secs + self.device_secs

    @property
    def gate_secs(self) -> float:
        return self.static_secs + self.check_secs

    @property
    def share(self) -> float:
        """Of the trial's wall time, what the gates took."""
        return self.gate_secs / self.wall_secs


@dataclass(frozen=True)
class Passage:
    """One program on its way through all gates."""

    operator: str
    number: int
    """Of the draw."""
    state: str
    code: str = ""
    reason: str = ""
    run_secs: float = 0.0
    """Median of a call; 0 where it has none."""
    max_error: float = 0.0
    """Over the allowed one."""
    is_proven: bool = False
    cost: Cost | None = None
    """None where it was measured for the proof alone."""

    @property
    def is_false_refusal(self) -> bool:
        """The program is right by construction."""
        return bool(self.code) and self.code not in UNANSWERED

    @property
    def is_answered(self) -> bool:
        return self.code not in UNANSWERED


@dataclass(frozen=True)
class Reference:
    """The untuned function of one operator."""

    secs: float
    """Wall seconds until candidates can be compared with it."""
    check_secs: float
    """Of those, what computing and storing the cases took."""


@dataclass(frozen=True)
class GatesBench:
    """A whole run; `passages` in the order they were made."""

    command: str
    date: str
    seed: int
    candidates: int
    """Wanted of all operators together."""
    ordinary: int
    """Of each operator, measured as an ordinary tuning run measures them."""
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    references: Mapping[str, Reference]
    passages: tuple[Passage, ...] = ()
    wall_secs: float = 0.0
    """Of all calls that this run was resumed by."""

    @property
    def answered(self) -> int:
        """Programs that the gates let pass or refused."""
        return sum(each.is_answered for each in self.passages)

    @property
    def false_refusals(self) -> tuple[Passage, ...]:
        """Programs that a gate called wrong."""
        return tuple(each for each in self.passages if each.is_false_refusal)

    @property
    def costs(self) -> list[Cost]:
        """Of the trials that were ordinary."""
        return [each.cost for each in self.passages if each.cost]

    @property
    def share(self) -> float:
        """Of the ordinary trials' wall time, what the gates took."""
        return _share(self.costs)

    @property
    def median_share(self) -> float:
        """The median of the ordinary trials' own shares."""
        return median([each.share for each in self.costs] or [0.0])

    @property
    def share_with_references(self) -> float:
        """`share`, the references counted as trials are: once an operator."""
        walls = sum(each.secs for each in self.references.values())
        gates = sum(each.check_secs for each in self.references.values())
        return _share(self.costs, gates, walls)

    def of(self, operator: str) -> list[Passage]:
        """The passages of one operator."""
        return [each for each in self.passages if each.operator == operator]

    def as_json(self) -> dict[str, Any]:
        """Everything, with the figures a reader wants first."""
        return {
            "answered": self.answered,
            "false_refusals": [asdict(each) for each in self.false_refusals],
            "share": self.share,
            "median_share": self.median_share,
            "share_with_references": self.share_with_references,
            **asdict(self),
        }


def from_json(plain: Mapping[str, Any]) -> GatesBench:
    """The run that `GatesBench.as_json` wrote; KeyError or TypeError where it is none."""
    passages = [
        Passage(**{**row, "cost": Cost(**row["cost"]) if row["cost"] else None})
        for row in plain["passages"]
    ]
    references = {name: Reference(**row) for name, row in plain["references"].items()}
    names = ("command", "date", "seed", "candidates", "ordinary", "versions", "machine")
    kept = {name: plain[name] for name in (*names, "wall_secs")}
    return GatesBench(**kept, references=references, passages=tuple(passages))


def _share(costs: Iterable[Cost], gate_secs: float = 0.0, wall_secs: float = 0.0) -> float:
    costs = list(costs)
    wall = wall_secs + sum(each.wall_secs for each in costs)
    return (gate_secs + sum(each.gate_secs for each in costs)) / wall if wall else 0.0


def spell(bench: GatesBench) -> str:
    """False refusals and the gates' share, then operator by operator."""
    refused = bench.false_refusals
    lines = [f"{each.operator} draw {each.number}: {each.code} {each.reason}" for each in refused]
    unanswered = len(bench.passages) - bench.answered
    proven = sum(each.is_proven for each in bench.passages)
    lines.append(
        f"{len(refused)} false refusals of {bench.answered} programs, {proven} right on every "
        f"case; {unanswered} more did not build or end in time"
    )
    lines.append(
        f"gates: {bench.share:.1%} of the wall time of {len(bench.costs)} ordinary trials, median "
        f"{bench.median_share:.1%}; {bench.share_with_references:.1%} with the references"
    )
    headers = ("OPERATOR", "PROGRAMS", "REFUSED", "UNANSWERED", "GATES", "A TRIAL", "STATIC")
    return "\n".join([*lines, table(headers, _rows(bench))])


def _rows(bench: GatesBench) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for operator in dict.fromkeys(each.operator for each in bench.passages):
        mine = bench.of(operator)
        costs = [each.cost for each in mine if each.cost]
        refused = sum(each.is_false_refusal for each in mine)
        unanswered = sum(not each.is_answered for each in mine)
        wall = median([each.wall_secs for each in costs] or [0.0])
        static = median([each.static_secs for each in costs] or [0.0])
        share = f"{_share(costs):.1%}"
        times = f"{wall * 1e3:.0f} ms", f"{static * 1e3:.1f} ms"
        rows.append((operator, len(mine) - unanswered, refused, unanswered, share, *times))
    return rows
