# SPDX-License-Identifier: Apache-2.0
"""Builds and times candidates, each in a process of its own that can die.

Builds of a chunk share the cores; then one candidate at a time has the machine to itself.
"""

from __future__ import annotations

import hashlib
import logging
import os
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING

from kope_tvm.errors import TargetError
from kope_tvm.measure import image, stages
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.job import Answer, Argument, Job
from kope_tvm.measure.processes import ZygoteClient, ZygoteDiedError
from kope_tvm.measure.stages import Candidate
from kope_tvm.outcome import Measurement
from kope_tvm.target import TargetSpec

if TYPE_CHECKING:
    from tvm import IRModule

MAX_PARKED = 16
REFERENCE_STRETCH = 10.0
"""The untuned function may take this many times a candidate's limit: it has no schedule."""
_MAX_IMAGE_BYTES = 1 << 30


@dataclass(frozen=True)
class _Reference:
    """The untuned function's outcome, and what candidates are compared with."""

    measurement: Measurement
    arguments: tuple[Argument, ...] = ()
    image_fd: int | None = None
    image_bytes: int = 0

    def free(self) -> None:
        if self.image_fd is not None:
            os.close(self.image_fd)


class Pool:
    """Measures modules on this machine; not for use from two threads at a time."""

    def __init__(self, spec: TargetSpec, config: MeasureConfig, log: logging.Logger) -> None:
        if spec.rpc_key:
            raise TargetError(
                f"target {spec.name!r} is reached through an RPC tracker (key {spec.rpc_key!r}); "
                "this pool measures on this machine only"
            )
        self._spec = spec
        self._config = config
        self._log = log
        self._num_cores = int(str(spec.tvm_target.get("num-cores", spec.facts.num_cores)))
        self._zygote: ZygoteClient | None = None
        self._num_failed_starts = 0
        self._references: dict[str, _Reference] = {}

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
        self._living()

    @property
    def zygote_pid(self) -> int:
        """The forking process, started if it was not."""
        return self._living().pid

    def close(self) -> None:
        """End every process and free every image."""
        if self._zygote:
            self._zygote.close()
            self._zygote = None
        for reference in self._references.values():
            reference.free()
        self._references.clear()

    def baseline(self, mod: str | bytes | IRModule) -> Measurement:
        """The untuned module's time; measured once, its outputs kept to check candidates with."""
        return self._reference(module_json(mod)).measurement

    def measure(
        self,
        mods: Sequence[str | bytes | IRModule],
        *,
        reference: str | bytes | IRModule | None = None,
        hopeless_secs: float | None = None,
    ) -> Iterator[tuple[int, Measurement]]:
        """Each module's index and outcome as soon as it is known.

        With `reference`, the untuned module, every candidate's outputs are compared with its own
        before and after timing; without, a wrong candidate is timed like a right one. One whose
        first call takes longer than `hopeless_secs` is timed by that call.
        """
        checked = None
        if reference is not None and self._config.check:
            checked = self._reference(module_json(reference))
            if checked.image_fd is None:
                failure = _without_reference(checked.measurement)
                yield from ((index, failure) for index in range(len(mods)))
                return
        waiting = deque(Candidate(index, module_json(mod)) for index, mod in enumerate(mods))
        while waiting:
            chunk = [waiting.popleft() for _ in range(min(MAX_PARKED, len(waiting)))]
            yield from self._chunk(chunk, waiting, checked, hopeless_secs)

    def _chunk(
        self,
        chunk: Sequence[Candidate],
        waiting: deque[Candidate],
        checked: _Reference | None,
        hopeless_secs: float | None,
    ) -> Iterator[tuple[int, Measurement]]:
        """Every outcome of the chunk; what a dying zygote took along goes back to `waiting`."""
        left = {candidate.index: candidate for candidate in chunk}
        try:
            for candidate, measurement in self._build_then_run(chunk, checked, hopeless_secs):
                del left[candidate.index]
                yield candidate.index, measurement
        except ZygoteDiedError as error:
            self._bury(error)
            for candidate in reversed(left.values()):
                candidate.num_deaths += candidate.is_busy
                if candidate.num_deaths > 1:
                    yield candidate.index, Measurement(code="E_DEVICE", error=f"twice: {error}")
                else:
                    waiting.appendleft(replace(candidate, worker=None, is_busy=False))

    def _build_then_run(
        self,
        chunk: Sequence[Candidate],
        checked: _Reference | None,
        hopeless_secs: float | None,
    ) -> Iterator[tuple[Candidate, Measurement]]:
        image_fd = checked.image_fd if checked else None
        limit_secs = self._spec.limits.run_secs
        job = replace(self._job(checked), hopeless_secs=hopeless_secs)
        try:
            yield from self._build(chunk, job, image_fd)
            built = [candidate for candidate in chunk if candidate.worker]
            for candidate, following in zip_longest(built, built[1:]):
                answer = stages.run(self._living(), candidate, limit_secs, following)
                yield candidate, answer.measurement
        finally:
            self._drop(chunk)

    def _drop(self, candidates: Sequence[Candidate]) -> None:
        """End the processes of candidates that will not run."""
        for candidate in candidates:
            if candidate.worker and self._zygote:
                self._zygote.forget(candidate.worker)
            candidate.worker = None

    def _build(
        self, candidates: Sequence[Candidate], job: Job, image_fd: int | None
    ) -> Iterator[tuple[Candidate, Measurement]]:
        return stages.build(
            self._living(),
            candidates,
            job,
            image_fd,
            num_parallel=self._num_cores,
            limit_secs=self._spec.limits.build_secs,
        )

    def _job(self, checked: _Reference | None, *, is_reference: bool = False) -> Job:
        return Job(
            target=dict(self._spec.tvm_target),
            config=self._config,
            memory_bytes=self._spec.limits.memory_bytes,
            is_reference=is_reference,
            arguments=checked.arguments if checked else (),
        )

    def _reference(self, module: bytes) -> _Reference:
        key = hashlib.sha256(module).hexdigest()
        if key not in self._references:
            try:
                found = self._make_reference(module)
            except ZygoteDiedError as error:
                self._bury(error)
                found = self._make_reference(module)
            self._make_room(found.image_bytes)
            self._references[key] = found
        return self._references[key]

    def _make_reference(self, module: bytes) -> _Reference:
        image_fd = image.create()
        try:
            answer = self._run_reference(Candidate(0, module), image_fd)
        except BaseException:
            os.close(image_fd)
            raise
        if not answer.measurement.ok:
            os.close(image_fd)
            return _Reference(answer.measurement)
        image.seal(image_fd)
        size = os.fstat(image_fd).st_size
        return _Reference(answer.measurement, answer.arguments, image_fd, size)

    def _run_reference(self, candidate: Candidate, image_fd: int) -> Answer:
        job = self._job(None, is_reference=True)
        try:
            for _, failure in self._build([candidate], job, image_fd):
                return Answer(failure)
            limit_secs = REFERENCE_STRETCH * self._spec.limits.run_secs
            return stages.run(self._living(), candidate, limit_secs)
        finally:
            self._drop([candidate])

    def _make_room(self, image_bytes: int) -> None:
        """Forget the oldest images; they are made again when asked for."""
        kept = sum(reference.image_bytes for reference in self._references.values())
        while self._references and kept + image_bytes > _MAX_IMAGE_BYTES:
            oldest = self._references.pop(next(iter(self._references)))
            kept -= oldest.image_bytes
            oldest.free()

    def _living(self) -> ZygoteClient:
        if self._zygote is None:
            self._zygote = ZygoteClient(self._num_cores, self._log)
            weakref.finalize(self, self._zygote.close)
        return self._zygote

    def _bury(self, error: ZygoteDiedError) -> None:
        """Make way for a new zygote; where none starts, no candidate is at fault."""
        was_ready = self._zygote is not None and self._zygote.was_ready
        self._zygote = None
        self._num_failed_starts = 0 if was_ready else self._num_failed_starts + 1
        if self._num_failed_starts > 1:
            raise error
        self._log.warning("%s; starting it again", error)


def module_json(mod: str | bytes | IRModule) -> bytes:
    """What `tvm.ir.save_json` makes of the module, as bytes."""
    if isinstance(mod, bytes):
        return mod
    if isinstance(mod, str):
        return mod.encode()
    import tvm

    return str(tvm.ir.save_json(mod)).encode()


def _without_reference(failed: Measurement) -> Measurement:
    return replace(
        failed,
        stage="check",
        code="E_DEVICE",
        error=f"the untuned function gave nothing to compare with: {failed.code} {failed.error}",
    )
