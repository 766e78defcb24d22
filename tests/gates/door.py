# SPDX-License-Identifier: Apache-2.0
"""Functions and schedules kept as data, led through the door that a proposal comes in by.

That is one round: apply, every gate, the measuring pool with the untuned function, the record. At
the door `module` the function is built beforehand, so that what is proved is the gates alone.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source, tirx

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context, Trial
from kope_tvm.gates import load_gates
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.memory.experience import Experience
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.panel import Panel
from kope_tvm.proposal import Decisions, Origin, Plan, Proposal, Rewrite, Step, with_origin
from kope_tvm.round import Run, Tuning
from kope_tvm.target import Limits, TargetSpec
from kope_tvm.workbench import Workbench, make_task, state_of, trace_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2}, limits=Limits(run_secs=2))
QUICK = MeasureConfig(repeat=2, min_repeat_ms=2)
STRANGER = "stranger"
DOORS = ("proposal", "module")


@dataclass(frozen=True)
class Entry:
    """One function or schedule of a suite."""

    name: str
    op: str
    codes: Mapping[str, tuple[str, ...]]
    """By door, what it is refused with: any of them."""
    script: str = ""
    module: str = ""
    """The function for the door `module`."""
    steps: tuple[Mapping[str, Any], ...] = ()
    then: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    """Of `Schedule`, made beforehand: their trace is proposed."""

    @property
    def doors(self) -> tuple[str, ...]:
        proposed = self.script or self.steps or self.calls
        given = zip(DOORS, (proposed, self.module), strict=True)
        return tuple(door for door, one in given if one)


def entries(folder: str) -> list[Entry]:
    """Those of every file of a folder, in order of their names."""
    rows: list[dict[str, Any]] = []
    for path in sorted((HERE / folder).glob("*.toml")):
        rows += tomllib.loads(path.read_text("utf-8"))["entry"]
    return [_entry(row) for row in rows]


def _entry(row: dict[str, Any]) -> Entry:
    codes = _codes(row.pop("code", ()))
    at_module = _codes(row.pop("module_code", codes))
    script = row.get("script", "")
    row["module"] = row.get("module", "" if row.get("then") else script)
    for name in ("steps", "then", "calls"):
        row[name] = tuple(row.get(name, ()))
    return Entry(codes={"proposal": codes, "module": at_module}, **row)


def _codes(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True)
class Answer:
    """What became of one entry at one door."""

    trial: Trial
    experience: Experience

    @property
    def code(self) -> str:
        return self.experience.code

    @property
    def is_best(self) -> bool:
        """Whether the finals may take it for the fastest."""
        measured = self.trial.measurement
        return measured is not None and measured.ok and measured.is_proven


@dataclass(frozen=True)
class _Device:
    """The pool, as the finals use it: whatever is right is proved."""

    pool: Pool
    untuned: tvm.IRModule

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        mods = [candidate.sch.mod for candidate in candidates]
        yield from self.pool.measure(mods, reference=self.untuned, prove_secs=math.inf)


class _Stranger:
    """Proposes what it was given, once."""

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._left = list(proposals)

    def propose(self, context: Context) -> list[Proposal]:
        given, self._left = self._left, []
        return given


Answers = dict[tuple[str, str], Answer]


def answers(given: Sequence[Entry]) -> Answers:
    """By name and door; an operator's entries share a round and the pool is one."""
    found: Answers = {}
    with Pool(HOST, QUICK, logging.getLogger("kope_tvm")) as pool:
        for op in sorted({entry.op for entry in given}):
            bench = bench_of(op)
            for door in DOORS:
                here = [entry for entry in given if entry.op == op and door in entry.doors]
                for name, answer in _round(bench, here, door, _Device(pool, bench.mod)):
                    found[name, door] = answer
    return found


def bench_of(op: str) -> Workbench:
    """The bench of the operator's one function."""
    ((name, mod, _),) = extract_tasks(load_model(op), HOST)
    return Workbench(make_task(name, mod, HOST))


def _round(
    bench: Workbench, given: Sequence[Entry], door: str, device: _Device
) -> Iterator[tuple[str, Answer]]:
    if not given:
        return
    built: dict[str, Candidate] = {}
    proposals = [proposal_of(entry, bench) for entry in given]
    if door == "module":
        built = {
            entry.name: _built(entry, bench, proposal)
            for entry, proposal in zip(given, proposals, strict=True)
        }
    recorded: list[Experience] = []
    apply: Callable[[Proposal], Candidate | Verdict] = bench.apply
    if built:
        apply = lambda proposal: built[proposal.origin.change]  # noqa: E731
    tuning = Tuning(
        bench.task,
        Run("suite", 1, "tvm"),
        Panel({STRANGER: _Stranger(proposals)}),
        apply,
        load_gates(),
        recall=lambda task: (),
        record=lambda experience, candidate: recorded.append(experience),
    )
    list(tuning.run_round(device, len(given), len(given)))
    for trial, experience in zip(tuning.trials, recorded, strict=True):
        yield experience.change, Answer(trial, experience)


def proposal_of(entry: Entry, bench: Workbench) -> Proposal:
    """What a stranger would propose, the entry's name its change."""
    proposal: Proposal
    if entry.calls:
        proposal = Decisions("rule:stranger", _trace(entry, bench))
    elif entry.steps:
        proposal = Plan(_steps(entry.steps))
    else:
        then = Plan(_steps(entry.then)) if entry.then else None
        proposal = Rewrite(entry.script or entry.module, then)
    return with_origin(proposal, Origin(STRANGER, change=entry.name))


def _steps(rows: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Step(row["do"], {name: value for name, value in row.items() if name != "do"})
        for row in rows
    )


def _trace(entry: Entry, bench: Workbench) -> str:
    sch = Schedule(bench.mod)
    for row in entry.calls:
        block = sch.get_sblock(row["block"])
        at = [sch.get_loops(block)[row["loop"]]] if "loop" in row else [block]
        at = [block, *at] if row.get("takes_both") else at
        getattr(sch, row["call"])(*at, *row.get("args", ()))
    return trace_text(sch.trace)


def _built(entry: Entry, bench: Workbench, proposal: Proposal) -> Candidate:
    func = from_source(entry.module, extra_vars={"T": tirx})
    mod = tvm.IRModule({"main": func.with_attrs(dict(bench.mod["main"].attrs.items()))})
    return Candidate(proposal, state_of(mod), Schedule(mod), mod)
