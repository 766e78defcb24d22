# SPDX-License-Identifier: Apache-2.0
"""A round whose proposals a test writes, and a work_dir that it fills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm.s_tir import Schedule

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.gates import load_gates
from kope_tvm.ledger import Ledger
from kope_tvm.memory.memory import Memory
from kope_tvm.model import Model, extract_tasks
from kope_tvm.outcome import Measurement
from kope_tvm.panel import Panel
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    Rewrite,
    Step,
    lane_of,
    with_origin,
)
from kope_tvm.round import Run, Tuning
from kope_tvm.target import TargetSpec
from kope_tvm.workbench import Workbench, make_task, replayed, trace_text

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
TVM_HOST = tvm.target.Target(dict(HOST.tvm_target))
SOFTMAX = "op:softmax:m=8,n=32"
STORES_NO_EXPONENTIALS = """\
@T.prim_func(s_tir=True)
def main(X: T.Buffer((8, 32), "float32"), Y: T.Buffer((8, 32), "float32")):
    high = T.sblock_alloc_buffer((8,), "float32")
    total = T.sblock_alloc_buffer((8,), "float32")
    for i, k in T.grid(8, 32):
        with T.sblock("high"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                high[vi] = T.min_value("float32")
            high[vi] = T.max(high[vi], X[vi, vk])
    for i, k in T.grid(8, 32):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(X[vi, vk] - high[vi])
    for i, j in T.grid(8, 32):
        with T.sblock("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.exp(X[vi, vj] - high[vi]) / total[vi]
"""
PLAN = Plan(
    (
        Step("parallel", {"block": "T_softmax_norm", "loop": "i0"}),
        Step("vectorize", {"block": "T_softmax_norm", "loop": "i1"}),
    )
)
ROWS_IN_PARALLEL = Plan((Step("parallel", {"block": "norm", "loop": "i"}),))
REWRITE = Rewrite(STORES_NO_EXPONENTIALS, ROWS_IN_PARALLEL)
PROPOSALS: dict[str, Proposal] = {"plan": PLAN, "rewrite": REWRITE}


class Scripted:
    """Proposes what it was given, once."""

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._left = [with_origin(one, Origin("scripted")) for one in proposals]

    def propose(self, context: Context) -> list[Proposal]:
        return [self._left.pop(0) for _ in range(min(context.num_wanted, len(self._left)))]


@dataclass(frozen=True)
class Timed:
    """A device on which a test knows the times, by lane."""

    secs: Mapping[str, float]

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, candidate in enumerate(candidates):
            yield index, Measurement((self.secs[lane_of(candidate.proposal)],))


@contextmanager
def opened(work_dir: Path) -> Iterator[Ledger]:
    with (
        Memory.open(work_dir.parent / "memory.sqlite") as memory,
        closing(Ledger(work_dir, HOST, memory)) as ledger,
    ):
        yield ledger


def bench_of(model: Model, name: str = "softmax") -> Workbench:
    (found,) = (mod for task, mod, _ in extract_tasks(model, HOST) if task == name)
    return Workbench(make_task(name, found, HOST))


def tuning_of(ledger: Ledger, bench: Workbench, proposals: Sequence[Proposal]) -> Tuning:
    ledger.open_workload(bench.mod)
    ledger.reconcile(bench.task, lambda experience: replayed(bench, experience))
    panel = Panel({"scripted": Scripted(proposals)})
    run = Run("r", 1, "tvm")
    gates = load_gates()
    return Tuning(bench.task, run, panel, bench.apply, gates, ledger.recall, ledger.record)


def learn(work_dir: Path, bench: Workbench, *given: tuple[Proposal, float]) -> None:
    """Put proposals on record, one a lane, with the times that a test wants."""
    proposals = [proposal for proposal, _ in given]
    secs = {lane_of(proposal): each for proposal, each in given}
    with opened(work_dir) as ledger:
        tuning = tuning_of(ledger, bench, proposals)
        trials = list(tuning.run_round(Timed(secs), len(given), len(given)))
        assert [trial.secs for trial in trials] == list(secs.values()), tuning.trials


def outermost_in_parallel(bench: Workbench, block: str = "T_softmax_exp") -> Decisions:
    sch = Schedule(bench.mod)
    sch.parallel(sch.get_loops(sch.get_sblock(block))[0])
    return Decisions("rule:x", trace_text(sch.trace))


def applied(bench: Workbench, proposal: Proposal) -> Candidate:
    candidate = bench.apply(proposal)
    assert isinstance(candidate, Candidate), candidate
    return candidate
