# SPDX-License-Identifier: Apache-2.0
"""What wins is proved and faster than the untuned function, or the untuned function stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from scripted_round import (
    HOST,
    PLAN,
    PROPOSALS,
    REWRITE,
    SOFTMAX,
    TVM_HOST,
    Timed,
    bench_of,
    learn,
    opened,
    outermost_in_parallel,
    tuning_of,
)
from tvm.s_tir import meta_schedule as ms

from kope_tvm.candidate import Candidate
from kope_tvm.compilation import compile_model
from kope_tvm.ledger import Ledger
from kope_tvm.manifest import Coverage
from kope_tvm.model import load_model
from kope_tvm.outcome import Measurement
from kope_tvm.performance import Comparison
from kope_tvm.proposal import Proposal, lane_of
from kope_tvm.records import Records
from kope_tvm.session import resumed
from kope_tvm.settled import Settled
from kope_tvm.settlement import Settlement
from kope_tvm.workbench import Workbench, state_of

pytestmark = pytest.mark.e2e

UNTUNED = "untuned"
WRONG = Measurement(stage="check", code="E_NUMERICS", error="max_rel 1 at [0]")


@dataclass
class Proving:
    """A device that knows the times by lane, and who is wrong when every case is tried."""

    task_key: str
    secs: Mapping[str, float]
    wrong: str = ""
    asked: list[str] = field(default_factory=list)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, candidate in enumerate(candidates):
            is_untuned = candidate.state == self.task_key
            lane = UNTUNED if is_untuned else lane_of(candidate.proposal)
            self.asked.append(lane)
            right = Measurement((self.secs[lane],) * 3, is_proven=True)
            yield index, WRONG if lane == self.wrong else right


def settled(
    ledger: Ledger,
    bench: Workbench,
    secs: Mapping[str, float],
    proposals: Sequence[Proposal] = (),
    wrong: str = "",
) -> Comparison | None:
    """A run's rounds and its end: what this work_dir knows, and the proposals."""
    tuning = tuning_of(ledger, bench, proposals)
    resumed(tuning, ledger.past(bench.task))
    tuning.baseline_secs = secs[UNTUNED]
    if proposals:
        list(tuning.run_round(Timed(secs), len(proposals), len(proposals)))
    device = Proving(bench.task.key, secs, wrong)
    return Settlement(tuning, bench, ledger, device, device).settle()


def compiled(work_dir: Path) -> Coverage:
    return compile_model(load_model(SOFTMAX), HOST, work_dir).coverage


def chosen_by_stock(work_dir: Path, bench: Workbench) -> str:
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    best = database.query_ir_module(bench.mod, TVM_HOST, "main")
    return state_of(best) if best is not None else ""


@pytest.mark.parametrize("lane", sorted(PROPOSALS))
def test_who_is_faster_beside_the_untuned_function_takes_its_place(
    tmp_path: Path, lane: str
) -> None:
    bench, work_dir = bench_of(load_model(SOFTMAX)), tmp_path / "work"
    with opened(work_dir) as ledger:
        found = settled(ledger, bench, {lane: 0.1, UNTUNED: 0.25}, [PROPOSALS[lane]])
        assert found is not None
        assert (found.correct, found.suspicious, found.faster) == (True, False, True)
        assert found.gain == pytest.approx(2.5)
        assert ledger.comparison(bench.task) == found
    coverage = compiled(work_dir)
    assert (coverage.lanes, coverage.gains) == ((lane,), (found.gain,))
    assert str(coverage.speedup) == (
        "2.50x of all 1, a fallback counted as 1.0; 2.50x of the optimised, 1 of 1"
    )


@pytest.mark.parametrize("lane", ["decisions", *sorted(PROPOSALS)])
def test_who_is_not_faster_by_the_needed_gain_leaves_the_untuned_function(
    tmp_path: Path, lane: str
) -> None:
    bench, work_dir = bench_of(load_model(SOFTMAX)), tmp_path / "work"
    proposals = {"decisions": outermost_in_parallel(bench), **PROPOSALS}
    with opened(work_dir) as ledger:
        found = settled(ledger, bench, {lane: 0.1, UNTUNED: 0.102}, [proposals[lane]])
    assert found is not None
    assert (found.correct, found.faster, found.needed) == (True, False, 1.03)
    coverage = compiled(work_dir)
    assert (coverage.hit, coverage.fallback, coverage.failed) == ((), ("main",), ())
    assert coverage.speedup.of_all == 1.0
    assert chosen_by_stock(work_dir, bench) == bench.task.key


def test_a_later_run_that_finds_something_faster_replaces_the_untuned_function(
    tmp_path: Path,
) -> None:
    bench, work_dir = bench_of(load_model(SOFTMAX)), tmp_path / "work"
    with opened(work_dir) as ledger:
        settled(ledger, bench, {"plan": 0.1, UNTUNED: 0.102}, [PLAN])
    assert compiled(work_dir).hit == ()
    with opened(work_dir) as ledger:
        secs = {"plan": 0.1, "rewrite": 0.099, UNTUNED: 0.11}
        found = settled(ledger, bench, secs, [REWRITE])
        assert found is not None
        assert found.accepted
    assert compiled(work_dir).lanes == ("rewrite",)
    assert chosen_by_stock(work_dir, bench) != bench.task.key


def test_who_is_wrong_when_proved_wins_nothing_and_is_no_longer_right(tmp_path: Path) -> None:
    bench, work_dir = bench_of(load_model(SOFTMAX)), tmp_path / "work"
    with opened(work_dir) as ledger:
        secs = {"plan": 0.1, "rewrite": 0.15, UNTUNED: 0.3}
        found = settled(ledger, bench, secs, [PLAN, REWRITE], wrong="plan")
        assert found is not None
        assert found.accepted
        assert found.gain == pytest.approx(2.0)
        past = {one.lane: (one.code, one.reason, one.run_secs) for one in ledger.past(bench.task)}
        assert past["plan"] == ("E_NUMERICS", "max_rel 1 at [0]", ())
        assert past["rewrite"][0] == ""
        shown = {one.experience.lane: one.value for one in ledger.recall(bench.task)}
        assert shown == {"rewrite": 1.0, "plan": 0.0}
    assert compiled(work_dir).lanes == ("rewrite",)


@pytest.mark.parametrize("simulated", [True, False])
def test_another_model_may_refuse_a_winner_that_no_clock_measured(
    tmp_path: Path, simulated: bool
) -> None:
    words = iter(["opinions disagree: by llvm-mca the winner takes 2.00x as long", ""])
    bench, secs = bench_of(load_model(SOFTMAX)), {"plan": 0.1, "rewrite": 0.12, UNTUNED: 0.3}
    with opened(tmp_path / "work") as ledger:
        tuning = tuning_of(ledger, bench, [PLAN, REWRITE])
        tuning.run = replace(tuning.run, simulated=simulated)
        tuning.baseline_secs = secs[UNTUNED]
        list(tuning.run_round(Timed(secs), 2, 2))
        device = Proving(bench.task.key, secs)
        found = Settlement(
            tuning, bench, ledger, device, device, lambda finalists: next(words)
        ).settle()
        past = {one.lane: one.code for one in ledger.past(bench.task)}
    assert found is not None
    assert found.accepted
    assert found.gain == pytest.approx(2.5 if simulated else 3.0)
    assert past == {"plan": "E_OPINIONS" if simulated else "", "rewrite": ""}
    assert ("was refused: opinions disagree" in found.note) is simulated


@pytest.mark.parametrize("lane", sorted(PROPOSALS))
@pytest.mark.parametrize(
    "moment",
    [
        (Ledger, "_take_back"),
        (Ledger, "keep_baseline"),
        (Records, "commit"),
        (Records, "settle"),
        (Settled, "note"),
    ],
    ids=lambda moment: f"{moment[0].__name__}.{moment[1]}",
)
@pytest.mark.parametrize("wrong", ["", "first"])
def test_broken_off_at_any_moment_it_is_made_good_by_the_next_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lane: str,
    moment: tuple[type, str],
    wrong: str,
) -> None:
    bench, work_dir = bench_of(load_model(SOFTMAX)), tmp_path / "work"
    secs = {lane: 0.1, UNTUNED: 0.102}
    learn(work_dir, bench, (PROPOSALS[lane], 0.1))
    with opened(work_dir) as ledger, monkeypatch.context() as patched:
        patched.setattr(*moment, _die)
        try:
            settled(ledger, bench, secs, wrong=lane if wrong else "")
        except KeyboardInterrupt:
            assert not ledger.is_settled(bench.task, bench.untouched)
            if wrong and moment != (Records, "settle"):  # That was to take it back.
                assert compiled(work_dir).hit == ()
    with opened(work_dir) as ledger:
        settled(ledger, bench, secs, wrong=lane if wrong else "")
        assert ledger.is_settled(bench.task, bench.untouched)
        (last,) = ledger.past(bench.task)
        assert bool(last.code) == bool(wrong)
    assert compiled(work_dir).fallback == ("main",)
    assert chosen_by_stock(work_dir, bench) == bench.task.key


def _die(*_: object) -> None:
    raise KeyboardInterrupt
