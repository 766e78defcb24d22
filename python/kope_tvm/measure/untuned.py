# SPDX-License-Identifier: Apache-2.0
"""Untuned functions, built and run once: their times, and what candidates are compared with."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kope_tvm.measure import image, stages
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.job import Answer, Board, Job
from kope_tvm.measure.processes import ZygoteDiedError
from kope_tvm.measure.references import OTHER_SEEDS, Known, References
from kope_tvm.measure.stages import Candidate
from kope_tvm.measure.workers import Workers
from kope_tvm.target import TargetSpec

REFERENCE_STRETCH = 10.0
"""The untuned function may take this many times a candidate's limit: it has no schedule."""
MOST_TOGETHER = 4
"""Each may take a candidate's memory several times over: sums in float64, inputs of all seeds."""


@dataclass(frozen=True)
class Untuned:
    """Makes references, and keeps them."""

    spec: TargetSpec
    config: MeasureConfig
    workers: Workers
    board: Board | None
    """None: this machine."""
    log: logging.Logger
    references: References

    def job(self, checked: Known | None) -> Job:
        """Of a candidate; without anything to compare it with it is only timed."""
        return Job(
            target=dict(self.spec.tvm_target),
            config=self.config,
            memory_bytes=self.spec.limits.memory_bytes,
            arguments=checked.arguments if checked else (),
            cases=checked.cases if checked else (),
            place=self.board,
        )

    def known(self, module: bytes) -> Known:
        """The function's reference, made where there is none."""
        known = self.references.get(module)
        if known is not None:
            return known
        try:
            known = self.make(module, self.config.seed)
        except ZygoteDiedError as error:
            self.workers.bury(error)
            known = self.make(module, self.config.seed)
        self._keep(known)
        return known

    def of_other_inputs(self, checked: Known) -> Known:
        """The same function's reference of other seeds."""
        if checked.again is None:
            checked.again = self.make(checked.module, self.config.seed + OTHER_SEEDS)
        return checked.again

    def prepare(self, modules: Sequence[bytes]) -> None:
        """Make the references that are missing, several at a time; each is timed alone."""
        missing = [module for module in modules if self.references.get(module) is None]
        num_together = max(1, min(self.workers.num_cores, MOST_TOGETHER))
        for at in range(0, len(missing), num_together):
            try:
                for known in self._made(missing[at : at + num_together], self.config.seed):
                    self._keep(known)
            except ZygoteDiedError as error:  # Alone, the one at fault is found.
                self.workers.bury(error)

    def make(self, module: bytes, seed: int) -> Known:
        """A reference that nobody keeps."""
        (known,) = self._made([module], seed)
        return known

    def _keep(self, known: Known) -> None:
        if known.notice:
            self.log.warning("checking this task: %s", known.notice)
        self.references.keep(known)

    def _made(self, modules: Sequence[bytes], seed: int) -> list[Known]:
        candidates = [Candidate(at, one, image.create()) for at, one in enumerate(modules)]
        answers: dict[int, Answer] = {}
        try:
            answers = dict(self._answers(candidates, seed))
            return [_known(candidate, answers[candidate.index]) for candidate in candidates]
        finally:
            for candidate in candidates:
                self.workers.drop(candidate)
                answer = answers.get(candidate.index)
                if candidate.image_fd is not None and not (answer and answer.measurement.ok):
                    os.close(candidate.image_fd)

    def _answers(self, candidates: Sequence[Candidate], seed: int) -> Iterator[tuple[int, Answer]]:
        config = replace(self.config, seed=seed)
        job = replace(self.job(None), config=config, is_reference=True)
        limits, zygote = self.spec.limits, self.workers.living()
        limit_secs = REFERENCE_STRETCH * limits.run_secs
        failures = stages.build(
            zygote,
            candidates,
            job,
            num_parallel=len(candidates),
            limit_secs=limits.build_secs,
        )
        for candidate, failure in failures:
            yield candidate.index, Answer(failure)
        built = [candidate for candidate in candidates if candidate.worker]
        if len(built) > 1:
            stages.check(zygote, built, limit_secs)
        for candidate in built:
            yield candidate.index, stages.run(zygote, candidate, limit_secs)


def _known(candidate: Candidate, answer: Answer) -> Known:
    assert candidate.image_fd is not None
    if not answer.measurement.ok:
        return Known(candidate.module, answer.measurement)
    image.seal(candidate.image_fd)
    return Known(
        candidate.module,
        answer.measurement,
        answer.arguments,
        answer.cases,
        answer.notice,
        image_fd=candidate.image_fd,
        image_bytes=os.fstat(candidate.image_fd).st_size,
    )
