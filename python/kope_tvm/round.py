# SPDX-License-Identifier: Apache-2.0
"""One round, the path everything takes.

Task --recall--> Context --propose--> [Proposal] --apply--> [Candidate] --gates--> Verdict
        ^                                   refused: the reason goes to the graph and the next
        Context
        |                                                          | accepted
        +---- Experience (edge) <--record-- Measurement <-- builder + runner
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context, Trial
from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.outcome import Measurement, Verdict, accept, refuse
from kope_tvm.panel import Panel
from kope_tvm.proposal import Proposal, lane_of, proposal_text, space_of
from kope_tvm.seam import Device, Gate
from kope_tvm.task import Task

_ATTEMPTS = 3
"""Times the panel is asked again when gates and repeats leave a round short."""


@dataclass(frozen=True)
class Run:
    """What every experience of one tuning run has in common."""

    run_id: str
    seed: int
    toolchain: str
    simulated: bool = False


@dataclass
class Tuning:
    """One task being tuned: who proposes, what refuses, and what was tried so far."""

    task: Task
    run: Run
    panel: Panel
    apply: Callable[[Proposal], Candidate | Verdict]
    gates: Sequence[Gate]
    recall: Callable[[Task], tuple[Recalled, ...]]
    record: Callable[[Experience, Candidate | None], None]
    baseline_secs: float = 0.0
    roof_secs: float = 0.0
    round_no: int = 0
    trials: list[Trial] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)

    def run_round(self, device: Device, num_wanted: int, trials_left: int) -> Iterator[Trial]:
        """Propose, check, measure and record; each trial is recorded before it is yielded."""
        candidates = self.candidates(num_wanted, trials_left)
        for index, measurement in device.measure(candidates):
            yield self.note(candidates[index], measurement, order=index)

    def candidates(self, num_wanted: int, trials_left: int) -> list[Candidate]:
        """The accepted candidates of the next round; what was refused is on record."""
        self.round_no += 1
        recalled = self.recall(self.task)
        is_last = trials_left <= num_wanted
        accepted: list[Candidate] = []
        for _ in range(_ATTEMPTS):
            wanted = num_wanted - len(accepted)
            if wanted <= 0:
                break
            context = self._context(wanted, trials_left, recalled, is_last=is_last)
            proposals = self.panel.propose(context)
            accepted += self._accepted(proposals)
        return accepted

    def note(self, candidate: Candidate, measurement: Measurement, *, order: int) -> Trial:
        """Turn a measurement into a trial, an edge, and credit for its proposer."""
        trial = Trial(candidate.state, candidate.proposal, accept("device"), measurement)
        self.panel.credit(trial, self.best_secs)
        self.trials.append(trial)
        self.record(self._experience(trial, order), candidate)
        return trial

    def show_last(self) -> None:
        """Let the proposers see the outcomes of the last round."""
        self.panel.show(self._context(0, 0, (), is_last=True))

    @property
    def best_secs(self) -> float:
        """The incumbent's time; infinity before the first right candidate."""
        return min((trial.secs for trial in self.trials), default=float("inf"))

    def _context(
        self, wanted: int, trials_left: int, recalled: tuple[Recalled, ...], *, is_last: bool
    ) -> Context:
        return Context(
            task=self.task,
            round_no=self.round_no,
            num_wanted=wanted,
            trials_left=trials_left,
            seed=self.run.seed,
            recalled=recalled,
            trials=tuple(self.trials),
            baseline_secs=self.baseline_secs,
            roof_secs=self.roof_secs,
            is_last_round=is_last,
            tried=frozenset(self.tried),
        )

    def _accepted(self, proposals: Sequence[Proposal]) -> list[Candidate]:
        kept: list[Candidate] = []
        for order, proposal in enumerate(proposals):
            candidate = self.apply(proposal)
            if isinstance(candidate, Verdict):
                self._refuse(proposal, candidate, _text_key(proposal), order)
            elif candidate.state in self.tried:
                self._note_repeat(candidate)
            else:
                self.tried.add(candidate.state)
                verdict = self._verdict(candidate)
                if verdict.accepted:
                    kept.append(candidate)
                else:
                    self._refuse(proposal, verdict, candidate.state, order)
        return kept

    def _note_repeat(self, candidate: Candidate) -> None:
        """Tell who paid for it that a proposal is an old program; it is no new experience."""
        if candidate.proposal.origin.tokens:
            verdict = refuse("round", "E_REPEAT", f"the same program as {candidate.state}")
            self.trials.append(Trial(_text_key(candidate.proposal), candidate.proposal, verdict))

    def _verdict(self, candidate: Candidate) -> Verdict:
        for gate in self.gates:
            verdict = gate.check(candidate, self.task)
            if not verdict.accepted:
                return verdict
        return accept("static")

    def _refuse(self, proposal: Proposal, verdict: Verdict, state: str, order: int) -> None:
        trial = Trial(state, proposal, verdict)
        self.panel.credit(trial, self.best_secs)
        self.trials.append(trial)
        self.record(self._experience(trial, order), None)

    def _experience(self, trial: Trial, order: int) -> Experience:
        task, origin, measured = self.task, trial.proposal.origin, trial.measurement
        failure = trial.verdict if measured is None else measured
        return Experience(
            task_key=task.key,
            task_name=task.name,
            features=task.features,
            machine_key=task.target.key,
            state=trial.state,
            parent=origin.parent,
            lane=lane_of(trial.proposal),
            space=space_of(trial.proposal),
            proposal=proposal_text(trial.proposal),
            proposer=origin.proposer,
            change=origin.change,
            round_no=self.round_no,
            order=order,
            accepted=trial.verdict.accepted,
            code=failure.code,
            reason=trial.verdict.reason if measured is None else measured.error,
            suspicious=failure.suspicious,
            run_secs=measured.run_secs if measured else (),
            baseline_secs=self.baseline_secs,
            noise=measured.noise if measured else 0.0,
            tokens=origin.tokens,
            cites=origin.cites,
            seed=self.run.seed,
            toolchain=self.run.toolchain,
            simulated=self.run.simulated,
            run_id=self.run.run_id,
            at=time.time(),
            repairs=origin.repair.state if origin.repair else "",
            repair_turn=origin.repair.turn if origin.repair else 0,
            signature=origin.repair.signature if origin.repair else "",
            source=origin.source,
            relative=origin.relative,
        )


def _text_key(proposal: Proposal) -> str:
    return hashlib.sha256(proposal_text(proposal).encode()).hexdigest()[:16]
