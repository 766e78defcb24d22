# SPDX-License-Identifier: Apache-2.0
"""Operators of an earlier run, taken at random, run anew: whether their ratios come out again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from kope_tvm.bench.output import SHAPE
from kope_tvm.bench.result import OWN, Operator
from kope_tvm.bench.run import run_suite
from kope_tvm.bench.state import operator_from
from kope_tvm.bench.wanted import Wanted
from kope_tvm.console import table
from kope_tvm.errors import UsageError
from kope_tvm.performance import needed_gain


@dataclass(frozen=True)
class Repeated:
    """One ratio of two runs."""

    spec: str
    peer: str
    before: float
    after: float
    allowed: float
    """How many times apart they may be: `max(1.03, 1 + 2 x noise)`, of the noisiest contender."""

    @property
    def is_within(self) -> bool:
        """Whether the noise explains the difference."""
        return max(self.before / self.after, self.after / self.before) <= self.allowed


def repeated(before: Operator, after: Operator, peer: str) -> Repeated:
    """Compare kope's ratio over a peer."""
    turns = [one.run_secs[name] for one in (before, after) for name in (OWN, peer)]
    ratios = (before.speed(OWN, peer), after.speed(OWN, peer))
    return Repeated(before.spec, peer, *ratios, needed_gain(*turns))


def run_again(wanted: Wanted, count: int) -> None:
    """Run `count` operators of `--json` as they were run, and print both ratios.

    Raises UsageError for a file that is none of a suite of operators.
    """
    if wanted.json_file is None:
        raise UsageError("--again: name the run to repeat with --json FILE")
    found = _read(wanted.json_file)
    told, known = found["configuration"], [operator_from(one) for one in found["operators"]]
    chosen = random.Random(time.time_ns()).sample(known, min(count, len(known)))
    same = replace(
        wanted,
        suite=told["suite"],
        against=tuple(told["against"]),
        target=told["target"],
        trials=told["trials"],
        seed=told["seeds"][0],
        repeats=len(told["seeds"]),
        json_file=None,
        only=(),
        turns=told["turns"],
        shard=(1, 1),
    )
    after = {one.spec: one for one in run_suite([o.spec for o in chosen], same, ()).operators}
    rows = [
        repeated(before, after[before.spec], peer)
        for before in chosen
        for peer in told["against"]
        if peer in before.run_secs and peer in after[before.spec].run_secs
    ]
    click.echo(spell(rows))


def spell(rows: list[Repeated]) -> str:
    """A line a ratio, and how many came out again."""
    shown = [
        (one.spec, one.peer, f"{one.before:.2f}", f"{one.after:.2f}", f"{one.allowed:.2f}",
         "yes" if one.is_within else "no")
        for one in rows
    ]  # fmt: skip
    within = sum(one.is_within for one in rows)
    headers = ("OPERATOR", "OVER", "BEFORE", "NOW", "MAY DIFFER BY", "WITHIN")
    return f"{table(headers, shown)}\n{within} of {len(rows)} ratios came out again within noise"


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if found["shape"] == SHAPE:
            return found
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UsageError(f"--json {file}: expected the JSON of a run of operators, shape {SHAPE!r}")
