# SPDX-License-Identifier: Apache-2.0
"""What a task's tuning comes to: its finals, and the winner beside the untuned function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.feedback.opinions import Opinion, is_dissent, opinion, second_opinion
from kope_tvm.finals import CLOSE, NUM_FINALISTS, against, finals, remeasured
from kope_tvm.ledger import Ledger
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.performance import Comparison, compared
from kope_tvm.proposal import Decisions
from kope_tvm.report import spelt
from kope_tvm.round import Tuning
from kope_tvm.seam import Device
from kope_tvm.workbench import Workbench, trace_text

_AHEAD = 0.999
"""Of the fastest's time, what is on record for the untuned function where that stays."""


@dataclass
class Settlement:
    """The last measurements of one task, put on record as they come.

    Who is refuted is no longer right from then on; who wins is put on record at the end, and the
    untuned function with a time that makes it, where it stays, the first choice of whoever reads
    the records. Broken off at any moment, it is begun anew by the next run.
    """

    tuning: Tuning
    bench: Workbench
    ledger: Ledger
    device: Device
    """Proves what it measures."""
    plain: Device
    """Only times it."""
    ask: Callable[[Sequence[Callable[[], Opinion]]], str] = second_opinion
    """Another model's word on the first of some finalists, where no clock measured."""
    _times: dict[str, tuple[float, ...]] = field(default_factory=dict)
    _words: list[str] = field(default_factory=list)
    """On winners that were refused because another model speaks against them."""

    def settle(self) -> Comparison | None:
        """The fastest beside the untuned function; None where nothing right was measured."""
        comparison = self._winner_beside_untuned()
        secs = self._untuned_secs(comparison)
        if secs:
            self.ledger.keep_baseline(self.tuning.task, self.bench.untouched, secs)
        if comparison is None or comparison.code != "E_DEVICE":  # That one is to be made again.
            self.ledger.settle(self.tuning.task, self._times, comparison)
        return comparison

    def _winner_beside_untuned(self) -> Comparison | None:
        while True:
            for trial, measurement in finals(self.tuning.trials, self.bench.apply, self.device):
                self._note(trial, measurement)
            winner = min(self.tuning.trials, key=lambda trial: trial.secs, default=None)
            if winner is None or winner.secs == math.inf:
                return None
            ours, theirs = self._in_turns(winner)
            word = self._second_opinion() if ours.ok else ""
            if is_dissent(word):
                self._words.append(f"{spelt(winner.proposal)} was refused: {word}")
                ours = Measurement(stage="check", code="E_OPINIONS", error=word)
            if ours.ok or ours.code == "E_DEVICE":
                note = "; ".join(filter(None, (*self._words, word)))
                return replace(compared(ours, theirs), note=note)
            self._note(winner, ours)

    def _second_opinion(self) -> str:
        """What another model has to say of the winner; nothing where a clock measured."""
        return self.ask(self._finalists()) if self.tuning.run.simulated else ""

    def _finalists(self) -> list[Callable[[], Opinion]]:
        """The fastest few that are close, each to be asked of another model; the winner first."""
        best = self.tuning.best_secs
        ranked = sorted(self.tuning.trials, key=lambda trial: trial.secs)[:NUM_FINALISTS]
        right = [trial for trial in ranked if trial.secs <= CLOSE * best]
        return [
            partial(opinion, spelt(trial.proposal), one.sch.mod, self.bench.task.target)
            for trial in right
            if trial.secs < math.inf
            and isinstance(one := self.bench.apply(trial.proposal), Candidate)
        ]

    def _in_turns(self, winner: Trial) -> tuple[Measurement, Measurement]:
        challenger = self.bench.apply(winner.proposal)
        if isinstance(challenger, Verdict):
            return _refused(challenger), Measurement()
        incumbent = self.bench.apply(Decisions("", trace_text(self.bench.untouched)))
        assert isinstance(incumbent, Candidate), incumbent
        ours, theirs = against(challenger, incumbent, self.device, self.plain, winner.secs)
        if not theirs.ok and self.tuning.baseline_secs:  # Too slow for a candidate's limits.
            theirs = Measurement((self.tuning.baseline_secs,))
        return ours, theirs

    def _note(self, trial: Trial, measurement: Measurement) -> None:
        self.tuning.trials[self.tuning.trials.index(trial)] = remeasured(trial, measurement)
        if measurement.ok:
            self._times[trial.state] = measurement.run_secs
        else:
            self._times.pop(trial.state, None)
            self.ledger.refute(self.tuning.task, trial.state, measurement)

    def _untuned_secs(self, comparison: Comparison | None) -> float:
        """What is on record for the untuned function; 0 where it has no time.

        As far from the winner's as it was beside it, and below all others where it stays.
        """
        fastest = self.tuning.best_secs
        known = comparison is not None and comparison.gain > 0
        secs = fastest * comparison.gain if comparison and known else self.tuning.baseline_secs
        stays = comparison is None or not comparison.accepted
        return min(secs, fastest * _AHEAD) if stays else secs


def _refused(verdict: Verdict) -> Measurement:
    return Measurement(stage="check", code=verdict.code, error=verdict.reason)
