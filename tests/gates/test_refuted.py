# SPDX-License-Identifier: Apache-2.0
"""What was right when it was timed, and is wrong when it is proved, is not right for anyone."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import tvm
from door import HOST, QUICK, bench_of, entries, proposal_of
from tvm.s_tir import meta_schedule as ms

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.gates import load_gates
from kope_tvm.learned import Learned
from kope_tvm.ledger import Ledger
from kope_tvm.measure import Pool
from kope_tvm.memory.memory import Memory
from kope_tvm.outcome import Measurement
from kope_tvm.panel import Panel
from kope_tvm.proposal import Proposal
from kope_tvm.round import Run, Tuning
from kope_tvm.session import resumed
from kope_tvm.settlement import Settlement
from kope_tvm.workbench import Workbench, replayed, state_of

UNPROVED = "relu by the sign's bit, which lets NaN through where the untuned function does not"
"""Only the last of all cases tells."""
(WRONG,) = (one for one in entries("cheats") if one.name == UNPROVED and one.script)


@dataclass(frozen=True)
class Device:
    """The pool, proving all, or nothing."""

    pool: Pool
    untuned: tvm.IRModule
    prove_secs: float

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        mods = [candidate.sch.mod for candidate in candidates]
        yield from self.pool.measure(mods, reference=self.untuned, prove_secs=self.prove_secs)


class Stranger:
    """Proposes what it was given, once."""

    def __init__(self, *proposals: Proposal) -> None:
        self._left = list(proposals)

    def propose(self, context: Context) -> list[Proposal]:
        given, self._left = self._left, []
        return given


def tuning_of(bench: Workbench, ledger: Ledger, *proposals: Proposal) -> Tuning:
    ledger.open_workload(bench.mod)
    ledger.reconcile(bench.task, lambda experience: replayed(bench, experience))
    panel = Panel({"stranger": Stranger(*proposals)})
    run = Run("refuted", 1, "tvm")
    tuning = Tuning(bench.task, run, panel, bench.apply, load_gates(), ledger.recall, ledger.record)
    resumed(tuning, ledger.past(bench.task))
    return tuning


def test_a_candidate_that_is_wrong_only_when_proved_is_refuted_everywhere(tmp_path: Path) -> None:
    bench = bench_of(WRONG.op)
    wrong = proposal_of(WRONG, bench)
    with (
        Pool(HOST, QUICK, logging.getLogger("kope_tvm")) as pool,
        Memory.open(tmp_path / "memory.sqlite") as memory,
    ):
        timing, proving = (Device(pool, bench.mod, secs) for secs in (0.0, math.inf))
        with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
            tuning = tuning_of(bench, ledger, wrong)
            (trial,) = tuning.run_round(timing, 1, 1)
            assert trial.measurement is not None
            assert (trial.measurement.ok, trial.measurement.is_proven) == (True, False)
            (before,) = memory.recall(bench.task)
            assert before.value == 1.0
            tuning.baseline_secs = pool.baseline(bench.mod).secs
            assert Settlement(tuning, bench, ledger, proving, timing).settle() is None
        with closing(Ledger(tmp_path / "work", HOST, memory)) as again:
            resumed_tuning = tuning_of(bench, again)
            assert again.is_settled(bench.task, bench.untouched)
        (told,) = resumed_tuning.trials
        assert (told.state, told.code, told.secs) == (trial.state, "E_NUMERICS", math.inf)
        assert "allowed" in told.reason
        assert told.state in resumed_tuning.tried
        (after,) = memory.recall(bench.task)
        assert (after.experience.code, after.value) == ("E_NUMERICS", 0.0)
    target = tvm.target.Target(dict(HOST.tvm_target))
    learned = Learned.open(tmp_path / "work", target)
    assert learned.choose(bench.mod["main"]).func is None
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "work"))
    best = database.query_ir_module(bench.mod, target, "main")
    assert state_of(best) == bench.task.key, "the untuned function"
