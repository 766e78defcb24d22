# SPDX-License-Identifier: Apache-2.0
"""The two stages of a candidate: building, beside others, and running, alone."""

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kope_tvm.measure.job import CHECK, CHECK_FORKED, TIME, Answer, Job
from kope_tvm.measure.patience import Patience
from kope_tvm.measure.processes import Worker, ZygoteClient
from kope_tvm.outcome import Measurement

_POLL_SECS = 0.25
_EXIT_SECS = 2.0
_BOARD_SECS = 300.0
"""A board that others use may be waited for so long."""


@dataclass
class Candidate:
    """A module on its way through the stages."""

    index: int
    module: bytes
    image_fd: int | None = None
    """What it is compared with, or fills where it is a reference; None where neither."""
    worker: Worker | None = None
    """Its process: parked between the stages."""
    build_secs: float = 0.0
    is_busy: bool = False
    """The compiler or the device works on it: a death of the zygote may be its fault."""
    keeps: bool = False
    """Measured in a fork of its process, which is kept for another turn."""
    num_deaths: int = 0


def build(
    zygote: ZygoteClient,
    candidates: Sequence[Candidate],
    job: Job,
    *,
    num_parallel: int,
    limit_secs: float,
) -> Iterator[tuple[Candidate, Measurement]]:
    """Park a process with each candidate's code in it; yields those that fail."""
    waiting = deque(candidates)
    building: dict[int, tuple[Candidate, Worker]] = {}
    while waiting or building:
        while waiting and len(building) < num_parallel:
            candidate = waiting.popleft()
            worker = zygote.fork(job, candidate.module, candidate.image_fd)
            candidate.worker, candidate.is_busy = worker, True
            building[candidate.index] = candidate, worker
        _wait(zygote, [worker for _, worker in building.values()])
        for candidate, worker in list(building.values()):
            answer = _look(zygote, worker, limit_secs, "build")
            if answer is None:
                continue
            del building[candidate.index]
            candidate.is_busy, worker.patience = False, None
            candidate.build_secs = answer.measurement.build_secs
            if not answer.is_built:
                zygote.forget(worker)
                candidate.worker = None
                yield candidate, answer.measurement


def run(
    zygote: ZygoteClient,
    candidate: Candidate,
    limit_secs: float,
    following: Candidate | None = None,
    prove_secs: float = math.inf,
    best_secs: float = math.inf,
) -> Answer:
    """Let a parked candidate measure; its process has gone when this returns, or its fork has.

    One that takes less than `prove_secs` is checked on every case, one not much more than
    `best_secs` on a second.

    The following one checks its outputs while this one goes; nothing is timed then.
    """
    worker = _checking(candidate)
    started = time.perf_counter()
    worker.patience = Patience(worker.pid, _BOARD_SECS if worker.awaits_board else limit_secs)
    worker.say(b"%s %.9g %.9g" % (TIME, prove_secs, best_secs))
    while (answer := _look(zygote, worker, limit_secs, "run")) is None:
        _wait(zygote, [worker])
    if answer.is_parked:  # Its fork left without a word.
        answer, candidate.keeps = Answer(_ended(worker, "run", limit_secs)), False
        zygote.kill(worker)
    if following:
        _checking(following)
    _leave(zygote, candidate)
    device_secs = time.perf_counter() - started
    measurement = replace(
        answer.measurement, build_secs=candidate.build_secs, device_secs=device_secs
    )
    return replace(answer, measurement=measurement)


def check(zygote: ZygoteClient, candidates: Sequence[Candidate], limit_secs: float) -> None:
    """Let parked references make what others are compared with, together; then `run` each.

    One that dies of it has its end noted for `run` to find; so has one that takes too long.
    """
    workers = [_checking(candidate) for candidate in candidates]
    for worker in workers:
        worker.patience = Patience(worker.pid, limit_secs)
    while working := [each for each in workers if not (each.has_checked or each.has_ended)]:
        zygote.poll(_POLL_SECS)
        for worker in working:
            _note(worker)
            _end_late(zygote, worker)


def run_beside(
    zygote: ZygoteClient,
    candidates: Sequence[Candidate],
    limit_secs: float,
    asked: Callable[[], tuple[float, float]],
) -> Iterator[tuple[Candidate, Answer]]:
    """Like `run`, for all parked candidates of a device that is beside the host.

    Each is timed while no other is; they check their outputs together, which a median of times
    does not notice: it takes the host's time and hardly any of the device's. `asked` says what
    `run` is told of the times, when it is known.
    """
    waiting, checking = deque(candidates), list[Candidate]()
    timed: Candidate | None = None
    for candidate in candidates:
        _checking(candidate)
    while waiting or checking or timed:
        if timed is None and waiting:
            timed = waiting.popleft()
            worker = _checking(timed)
            worker.patience = Patience(worker.pid, limit_secs)
            worker.say(b"%s %.9g %.9g" % (TIME, *asked()))
        told = [*checking, timed] if timed else checking
        _wait(zygote, [_checking(candidate) for candidate in told])
        for candidate in told:
            answer = _look(zygote, _checking(candidate), limit_secs, "run")
            if answer is None:
                continue
            if answer.is_timed:
                checking.append(candidate)
            else:
                checking = [each for each in checking if each is not candidate]
                yield candidate, _left(zygote, candidate, answer)
            timed = None if candidate is timed else timed


def _left(zygote: ZygoteClient, candidate: Candidate, answer: Answer) -> Answer:
    """The candidate's answer, its process gone."""
    _leave(zygote, candidate)
    return replace(answer, measurement=replace(answer.measurement, build_secs=candidate.build_secs))


def _leave(zygote: ZygoteClient, candidate: Candidate) -> None:
    """Let what measured go; a candidate that keeps its process may be measured again."""
    worker = _checking(candidate)
    is_parked = _await_exit(zygote, worker, is_parked=candidate.keeps)
    candidate.is_busy = False
    if not is_parked:
        candidate.worker = None
        worker.close()


def _checking(candidate: Candidate) -> Worker:
    """The candidate's process, told to check its outputs if it was not."""
    worker = candidate.worker
    if worker is None:
        raise ValueError(f"candidate {candidate.index} was not built, or has run")
    if not candidate.is_busy:
        candidate.is_busy = True
        worker.say(CHECK_FORKED if candidate.keeps else CHECK)
    return worker


def _await_exit(zygote: ZygoteClient, worker: Worker, *, is_parked: bool) -> bool:
    """Until its threads and memory are gone, nothing else may be timed; whether it waits parked."""
    deadline = time.monotonic() + _EXIT_SECS
    while worker.exit_code is None:
        if is_parked and worker.answers:
            answer = worker.answers.popleft()
            return answer is not None and answer.is_parked
        if time.monotonic() > deadline:
            zygote.kill(worker)
        zygote.poll(_POLL_SECS)
    return False


def _wait(zygote: ZygoteClient, workers: Sequence[Worker]) -> None:
    if not any(worker.has_ended for worker in workers):
        zygote.poll(_POLL_SECS)


def _look(zygote: ZygoteClient, worker: Worker, limit_secs: float, stage: str) -> Answer | None:
    """What became of a stage; None while it goes on. Ends a child that has had its time."""
    _note(worker)
    if worker.answers:
        answer = worker.answers.popleft()
        return answer or Answer(Measurement(stage=stage, code="E_CRASH", error="garbled answer"))
    if worker.exit_code is not None:
        return Answer(_ended(worker, stage, limit_secs))
    if worker.pid and worker.patience is None:
        worker.patience = Patience(worker.pid, limit_secs)
    _end_late(zygote, worker)
    return None


def _note(worker: Worker) -> None:
    """Take what is not the end."""
    if worker.answers and worker.answers[0] and worker.answers[0].has_board:
        worker.answers.popleft()
        worker.awaits_board, worker.patience = False, None
    if worker.answers and worker.answers[0] and worker.answers[0].is_checked:
        worker.answers.popleft()
        worker.has_checked = True


def _end_late(zygote: ZygoteClient, worker: Worker) -> None:
    if worker.patience and worker.patience.is_over() and not worker.timed_out:
        worker.timed_out = True
        zygote.kill(worker)


def _ended(worker: Worker, stage: str, limit_secs: float) -> Measurement:
    if worker.timed_out:
        return Measurement(stage=stage, code="E_TIMEOUT", error=f"killed after {limit_secs:g} s")
    code = worker.exit_code or 0
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
    words = worker.last_words()
    error = f"{how} during {stage}{': ' + words if words else ''}"
    return Measurement(stage=stage, code="E_CRASH", error=error)
