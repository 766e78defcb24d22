# SPDX-License-Identifier: Apache-2.0
"""Builds and times candidates, each in a process of its own that can die.

Builds of a chunk share the cores; then one candidate at a time has the machine to itself.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING

from kope_tvm.boards import Met
from kope_tvm.errors import TargetError
from kope_tvm.measure import health, stages
from kope_tvm.measure.asked import Asked, quarantined, without_reference
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.job import Answer, Job
from kope_tvm.measure.processes import ZygoteDiedError
from kope_tvm.measure.references import References, module_json
from kope_tvm.measure.shared import Shared
from kope_tvm.measure.stages import Candidate
from kope_tvm.measure.untuned import Untuned
from kope_tvm.measure.workers import Workers
from kope_tvm.outcome import Measurement
from kope_tvm.performance import in_doubt
from kope_tvm.target import TargetSpec
from kope_tvm.target_kind import is_on_host

if TYPE_CHECKING:
    from tvm import IRModule

MAX_PARKED = 16


class Pool:
    """Measures modules, here or on a board; not for use from two threads at a time."""

    def __init__(
        self,
        spec: TargetSpec,
        config: MeasureConfig,
        log: logging.Logger,
        met: Met | None = None,
    ) -> None:
        """`met` is where a target that has an RPC key is measured: `boards.met_board` finds one."""
        self._is_gpu = not is_on_host(spec.tvm_target.get("kind"))
        if spec.rpc_key and met is None and not self._is_gpu:
            raise TargetError(
                f"target {spec.name!r} is reached through an RPC tracker (key {spec.rpc_key!r}); "
                "open its boards with kope_tvm.boards.met_board"
            )
        self._spec = spec
        self._met = met
        self._board = Shared(met.place) if met else None
        self._config = config
        is_elsewhere = met is not None or self._is_gpu
        cores = os.cpu_count() or 1 if is_elsewhere else spec.tvm_target.get("num-cores", 1)
        self._workers = Workers(int(str(cores)), log)
        board = self._board.board if self._board else None
        self._untuned = Untuned(spec, config, self._workers, board, log, References())

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def warm_up(self) -> None:
        """Start the forking process now, without waiting for it."""
        self._workers.living()

    @property
    def zygote_pid(self) -> int:
        """The forking process, started if it was not."""
        return self._workers.living().pid

    def close(self) -> None:
        """End every process and free every image."""
        self._workers.close()
        self._untuned.references.free()
        if self._board:
            self._board.close()

    @property
    def is_wall_time(self) -> bool:
        """Whether its times are what a clock said, and not simulated."""
        return self._met is None or not self._met.mark

    def prepare(self, mods: Sequence[str | bytes | IRModule]) -> None:
        """Have the baselines of several modules, made beside one another on a host."""
        if self._board is None and not self._is_gpu:
            self._untuned.prepare([module_json(mod) for mod in mods])

    def baseline(self, mod: str | bytes | IRModule) -> Measurement:
        """The untuned module's time; measured once, its outputs kept to check candidates with."""
        return self._untuned.known(module_json(mod)).measurement

    def notice(self, mod: str | bytes | IRModule) -> str:
        """What checking candidates against the untuned module cannot tell; empty where all."""
        return self._untuned.known(module_json(mod)).notice

    def measure(
        self,
        mods: Sequence[str | bytes | IRModule],
        *,
        reference: str | bytes | IRModule | None = None,
        hopeless_secs: float | None = None,
        prove_secs: float | None = None,
        floor_secs: float = 0.0,
        is_last: bool = True,
    ) -> Iterator[tuple[int, Measurement]]:
        """Each module's index and outcome as soon as it is known.

        With `reference`, the untuned module, every candidate's outputs are compared with what is
        expected before and after timing; without, a wrong candidate is timed like a right one. One
        whose first call takes longer than `hopeless_secs` is timed by that call. One that takes
        less than `prove_secs` is checked on every case: by default one that beats the best
        candidate of the reference so far. None is faster than `floor_secs`. What is not measured
        for the last time keeps its code for a while.
        """
        checked = None
        if reference is not None and self._config.check:
            checked = self._untuned.known(module_json(reference))
            if checked.image_fd is None:
                failure = without_reference(checked.measurement)
                yield from ((index, failure) for index in range(len(mods)))
                return
        waiting = deque(Candidate(index, module_json(mod)) for index, mod in enumerate(mods))
        keeps = not is_last and self._board is None and not self._is_gpu
        given = Asked(checked, hopeless_secs, prove_secs, floor_secs, keeps)
        while waiting:
            chunk = [waiting.popleft() for _ in range(min(MAX_PARKED, len(waiting)))]
            yield from self._chunk(chunk, waiting, given)

    def _chunk(
        self, chunk: Sequence[Candidate], waiting: deque[Candidate], given: Asked
    ) -> Iterator[tuple[int, Measurement]]:
        """Every outcome of the chunk; what a dying zygote took along goes back to `waiting`."""
        left = {candidate.index: candidate for candidate in chunk}
        left_open: list[tuple[Candidate, Measurement]] = []
        try:
            for candidate, measurement in self._build_then_run(chunk, given):
                del left[candidate.index]
                if given.leaves_open(measurement):
                    left_open.append((candidate, measurement))
                    continue
                given.note(measurement)
                yield candidate.index, measurement
        except ZygoteDiedError as error:
            self._workers.bury(error)
            for candidate in reversed(left.values()):
                candidate.num_deaths += candidate.is_busy
                if candidate.num_deaths > 1:
                    yield candidate.index, Measurement(code="E_DEVICE", error=f"twice: {error}")
                else:
                    waiting.appendleft(replace(candidate, worker=None, is_busy=False))
        given.end_batch()
        yield from self._settled(left_open, given)

    def _build_then_run(
        self, chunk: Sequence[Candidate], given: Asked
    ) -> Iterator[tuple[Candidate, Measurement]]:
        checked = given.checked
        for candidate in chunk:
            candidate.image_fd = checked.image_fd if checked else None
        job = replace(self._untuned.job(checked), hopeless_secs=given.hopeless_secs)
        parked = self._workers.parked
        try:
            for candidate in chunk:
                parked.take(candidate, job, keeps=given.keeps)
            fresh = [candidate for candidate in chunk if not candidate.worker]
            yield from self._build(fresh, job)
            built = [candidate for candidate in chunk if candidate.worker]
            for candidate, answer in self._run(built, given):
                yield candidate, in_doubt(answer.measurement, given.floor_secs)
        finally:
            for candidate in chunk:
                self._workers.leave(candidate, job)

    def _is_well(self) -> bool:
        known = self._untuned.make(health.plain_module(), self._config.seed)
        if known.image_fd is None:
            return False
        candidate = Candidate(0, known.module, known.image_fd)
        try:
            for _ in self._build([candidate], self._untuned.job(known)):
                return False
            limit_secs = self._spec.limits.run_secs
            return stages.run(self._workers.living(), candidate, limit_secs).measurement.ok
        finally:
            self._workers.drop(candidate)
            known.free()

    def _run(self, built: Sequence[Candidate], given: Asked) -> Iterator[tuple[Candidate, Answer]]:
        limit_secs = self._spec.limits.run_secs
        if self._is_gpu:
            for candidate, answer in stages.run_beside(
                self._workers.living(),
                built,
                limit_secs,
                lambda: (given.prove_below, given.best_secs),
            ):
                if answer.measurement.code in health.SUSPECTS:
                    health.wait_for(self._is_well, self._spec.name)
                yield candidate, answer
            return
        for candidate, following in zip_longest(built, built[1:]):
            asked = given.prove_below, given.best_secs
            yield (
                candidate,
                stages.run(self._workers.living(), candidate, limit_secs, following, *asked),
            )

    def _settled(
        self, left_open: Sequence[tuple[Candidate, Measurement]], given: Asked
    ) -> Iterator[tuple[int, Measurement]]:
        """The fastest first: where it is right, the others are mostly neither best nor in doubt."""
        for candidate, measurement in sorted(left_open, key=lambda row: row[1].secs):
            if given.must_prove(measurement):
                measurement = self._proved(candidate, measurement, given)
            given.note(measurement)
            yield candidate.index, measurement

    def _proved(self, candidate: Candidate, measurement: Measurement, given: Asked) -> Measurement:
        """Measured once more on every case; where it is too good, on inputs no one has seen."""
        assert given.checked is not None
        began = time.perf_counter()
        is_doubted = measurement.is_proven or given.doubts(measurement)
        fresh = replace(candidate, worker=None, is_busy=False)
        try:
            reference = (
                self._untuned.of_other_inputs(given.checked) if is_doubted else given.checked
            )
            if reference.image_fd is None:
                return measurement
            again = replace(given, checked=reference, prove_secs=math.inf, hopeless_secs=None)
            for _, second in self._build_then_run([fresh], again):
                check_secs = measurement.check_secs + time.perf_counter() - began
                failed = quarantined(second) if is_doubted else second
                return replace(second if second.ok else failed, check_secs=check_secs)
        except ZygoteDiedError as error:
            self._workers.bury(error)
            code = "E_QUARANTINE" if is_doubted else "E_DEVICE"
            return Measurement(stage="check", code=code, error=f"proving it: {error}")
        return measurement

    def _build(
        self, candidates: Sequence[Candidate], job: Job
    ) -> Iterator[tuple[Candidate, Measurement]]:
        return stages.build(
            self._workers.living(),
            candidates,
            job,
            num_parallel=self._workers.num_cores,
            limit_secs=self._spec.limits.build_secs,
        )
