# SPDX-License-Identifier: Apache-2.0
"""A function tuned through MLIR's own compiler: each script an experience like any other."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.mlir.allow_list import check_text
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.script_proposal import LANE, SPACE, ScriptProposal
from kope_tvm.mlir.script_proposers import ScriptProposer, ScriptTrial
from kope_tvm.outcome import Measurement
from kope_tvm.proposal import Origin

_PER_ROUND = 4


def mlir_toolchain() -> str:
    """E.g. `mlir 22.1.8.4`: results of another are hints only."""
    return f"mlir {version('xtc-mlir-python-bindings')}"


@dataclass
class ScriptTuning:
    """One function, who proposes for it, and the memory that its outcomes go to."""

    function: Function
    proposers: Sequence[ScriptProposer]
    memory: Memory | None
    run_id: str
    seed: int = 1
    trials: list[ScriptTrial] = field(default_factory=list)
    _round_no: int = 0

    def tune(self, num_trials: int) -> Iterator[ScriptTrial]:
        """Measure up to so many scripts; each is recorded before it is yielded."""
        if self.memory is not None:
            self.memory.note_machine(self.function.bench.task.target)
        while len(self.trials) < num_trials:
            self._round_no += 1
            wanted = min(_PER_ROUND, num_trials - len(self.trials))
            proposals = list(self._proposals(wanted))
            if not proposals:
                return
            for order, proposal in enumerate(proposals):
                trial = self._measured(proposal)
                self.trials.append(trial)
                self._record(trial, order)
                yield trial

    @property
    def best(self) -> ScriptTrial | None:
        """The fastest right script; None where no script was right."""
        right = [trial for trial in self.trials if trial.measurement.ok]
        return min(right, key=lambda trial: trial.secs, default=None)

    def _proposals(self, wanted: int) -> Iterator[ScriptProposal]:
        tried = {trial.proposal.text() for trial in self.trials}
        for proposer in self.proposers:
            for proposal in proposer.propose(self.trials, wanted) if wanted > 0 else ():
                if proposal.text() not in tried:
                    tried.add(proposal.text())
                    wanted -= 1
                    yield proposal

    def _measured(self, proposal: ScriptProposal) -> ScriptTrial:
        try:
            script = self.function.script(proposal)
        except ValueError as error:
            measured = Measurement(stage="build", code="E_SCRIPT", error=str(error)[:400])
            return ScriptTrial(_key(proposal.text()), proposal, measured)
        verdict = check_text(script)
        if not verdict.accepted:
            measured = Measurement(stage="build", code=verdict.code, error=verdict.reason)
        else:
            limit_secs = self.function.bench.task.target.limits.run_secs
            measured = self.function.proof.measure(script, limit_secs)
        return ScriptTrial(_key(script), proposal, measured)

    def _record(self, trial: ScriptTrial, order: int) -> None:
        if self.memory is not None:
            self.memory.record(self._experience(trial, order))

    def _experience(self, trial: ScriptTrial, order: int) -> Experience:
        task, measured = self.function.bench.task, trial.measurement
        origin: Origin = trial.proposal.origin
        repair = origin.repair
        return Experience(
            task_key=task.key,
            task_name=task.name,
            features=task.features,
            machine_key=task.target.key,
            state=trial.state,
            parent=origin.parent,
            lane=LANE,
            space=SPACE,
            proposal=trial.proposal.text(),
            proposer=origin.proposer,
            change=origin.change,
            round_no=self._round_no,
            order=order,
            accepted=measured.stage != "build",
            code=measured.code,
            reason=measured.error,
            suspicious=measured.suspicious,
            run_secs=measured.run_secs,
            baseline_secs=self.function.proof.baseline_secs,
            noise=measured.noise,
            tokens=origin.tokens,
            cites=origin.cites,
            seed=self.seed,
            toolchain=mlir_toolchain(),
            simulated=False,
            run_id=self.run_id,
            at=time.time(),
            repairs=repair.state if repair else "",
            repair_turn=repair.turn if repair else 0,
            signature=repair.signature if repair else "",
            source=origin.source,
            relative=origin.relative,
        )


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
