# SPDX-License-Identifier: Apache-2.0
"""Untuned functions, built and run once: their times, and what candidates are compared with."""

from __future__ import annotations

import logging
import os
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
        if known.notice:
            self.log.warning("checking this task: %s", known.notice)
        self.references.keep(known)
        return known

    def of_other_inputs(self, checked: Known) -> Known:
        """The same function's reference of other seeds."""
        if checked.again is None:
            checked.again = self.make(checked.module, self.config.seed + OTHER_SEEDS)
        return checked.again

    def make(self, module: bytes, seed: int) -> Known:
        """A reference that nobody keeps."""
        image_fd = image.create()
        try:
            answer = self._run(Candidate(0, module), image_fd, seed)
        except BaseException:
            os.close(image_fd)
            raise
        if not answer.measurement.ok:
            os.close(image_fd)
            return Known(module, answer.measurement)
        image.seal(image_fd)
        size = os.fstat(image_fd).st_size
        return Known(
            module,
            answer.measurement,
            answer.arguments,
            answer.cases,
            answer.notice,
            image_fd=image_fd,
            image_bytes=size,
        )

    def _run(self, candidate: Candidate, image_fd: int, seed: int) -> Answer:
        config = replace(self.config, seed=seed)
        job = replace(self.job(None), config=config, is_reference=True)
        limits = self.spec.limits
        try:
            for _, failure in stages.build(
                self.workers.living(),
                [candidate],
                job,
                image_fd,
                num_parallel=1,
                limit_secs=limits.build_secs,
            ):
                return Answer(failure)
            limit_secs = REFERENCE_STRETCH * limits.run_secs
            return stages.run(self.workers.living(), candidate, limit_secs)
        finally:
            self.workers.drop(candidate)
