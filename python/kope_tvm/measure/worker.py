# SPDX-License-Identifier: Apache-2.0
"""What a forked child does with its one module: build, check, time, answer.

It waits for the word before it checks and before it times. Told so, it leaves checking and timing
to a fork of its own and waits for the word again.

Everything here may be killed at any instruction, and shares its process with native code of
a candidate's.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from kope_tvm.cores import off_the_workers_cores, stay_off_the_workers_cores
from kope_tvm.llvm_build import build, build_untuned
from kope_tvm.measure import lift, on_board, signature, timing
from kope_tvm.measure.check import Check
from kope_tvm.measure.forked import is_forked
from kope_tvm.measure.image import Writer
from kope_tvm.measure.job import CHECK, CHECK_FORKED, Answer, Argument, Job, await_time
from kope_tvm.measure.reference import Made, Reference, make_cases
from kope_tvm.measure.refused import RefusedError
from kope_tvm.measure.values import random_values
from kope_tvm.outcome import Measurement
from kope_tvm.stopwatch import Stopwatch
from kope_tvm.target_kind import is_on_host

SLOW_REFERENCE_SECS = 0.1
"""An untuned function slower than this is timed by one call."""
QUICK_SECS = 0.01
NEAR = 1.5
"""What is neither that quick nor so near the best is not called once more only to be checked."""


@dataclass(frozen=True)
class _Built:
    """A function of the module, compiled."""

    name: str
    lib: Any
    function: Any
    arguments: tuple[Argument, ...]
    mod: tvm.IRModule
    target: Any
    num_threads: int
    """That TVM's pool may have after its calls, beside the caller."""


def work(sock: socket.socket, job: Job, module_fd: int, image_fd: int) -> None:
    """Build the module, then measure it on `GO`; sends one answer each."""
    started = time.perf_counter()
    try:
        checked, timed = _build(job, module_fd)
    except Exception as error:  # whatever the compiler raises is this candidate's answer
        sock.send(_failed("build", "E_BUILD", error, time.perf_counter() - started))
        return
    build_secs = time.perf_counter() - started
    sock.send(Answer(Measurement(stage="build", build_secs=build_secs), is_built=True).encode())
    while (word := sock.recv(len(CHECK))) == CHECK_FORKED:
        if is_forked():
            break
        sock.send(Answer(Measurement(), is_parked=True).encode())
    if word:
        _measure_and_answer(sock, job, checked, timed, image_fd, build_secs)


def _measure_and_answer(
    sock: socket.socket,
    job: Job,
    checked: _Built,
    timed: _Built,
    image_fd: int,
    build_secs: float,
) -> None:
    try:
        answer = _measure(sock, job, checked, timed, image_fd)
        if answer:
            sock.send(answer.encode())
    except RefusedError as error:
        sock.send(_failed("check", error.code, error, build_secs, error.max_error))
    except Exception as error:  # likewise whatever its run raises
        sock.send(_failed("run", "E_CRASH", error, build_secs))


def _failed(
    stage: str, code: str, error: Exception, build_secs: float, max_error: float = 0.0
) -> bytes:
    text = first_line(error)
    return Answer(
        Measurement(stage=stage, code=code, error=text, build_secs=build_secs, max_error=max_error)
    ).encode()


def first_line(error: Exception) -> str:
    """The line of an error that says what went wrong, of TVM's many."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith(("File ", "Traceback", "^"))]
    telling = [line for line in lines if "Check failed" in line or "Error" in line] or lines
    return (telling[0] if telling else type(error).__name__)[:300]


def _build(job: Job, module_fd: int) -> tuple[_Built, _Built]:
    """The module as it is, and without the layout rewrites that happen ahead of time."""
    with mmap.mmap(module_fd, 0, prot=mmap.PROT_READ) as text:
        mod = tvm.ir.load_json(text[:].decode())
    target = tvm.target.Target(dict(job.target))
    timed_mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    timed = _compile(timed_mod, target, build_untuned if job.is_reference else build)
    if not job.arguments or tvm_ffi.structural_equal(mod, timed_mod):
        return timed, timed
    return _compile(mod, target, build), timed


def _compile(mod: tvm.IRModule, target: tvm.target.Target, by: Callable[..., Any]) -> _Built:
    name, func = signature.entry(mod)
    arguments = signature.arguments(func)
    lib = by(mod, target).jit()
    # Looking the function up is what makes LLVM emit machine code.
    pool = max(int(target.attrs.get("num-cores", 1)), os.cpu_count() or 1)
    num_threads = pool if lift.is_parallel(mod) else 0
    return _Built(name, lib, lib[name], arguments, mod, target, num_threads)


def _measure(
    sock: socket.socket, job: Job, checked: _Built, timed: _Built, image_fd: int
) -> Answer | None:
    """None where the tuner has gone."""
    kind = str(job.target["kind"])
    device = tvm.device("cpu" if is_on_host(kind) else kind)
    if job.is_reference:
        return _make_reference(sock, job, checked, image_fd, device)
    if not job.arguments:
        return _time_unchecked(sock, job, timed, device)
    return _check_and_time(sock, job, checked, timed, image_fd, device)


def _check_and_time(
    sock: socket.socket, job: Job, checked: _Built, timed: _Built, image_fd: int, device: Any
) -> Answer | None:
    watch = Stopwatch()
    with watch:
        check = Check(
            job, checked.arguments, checked.function, image_fd, device, is_host=_is_host(device)
        )

    def elsewhere(number: int) -> Sequence[Any]:
        with watch:
            return check.other_values(number)

    calls = replace(_calls(checked, check.values, device), others=elsewhere)
    first_secs = calls.once()
    with watch:
        max_error = check.first()
    if checked is not timed:
        calls = _calls(timed, random_values(timed.arguments, job.config.seed, device), device)
        first_secs = calls.once()
    times = await_time(sock)
    if times is None:
        return None
    prove_secs, best_secs = times
    run_secs = _timed(calls, job, first_secs)
    if not _is_host(device):
        sock.send(Answer(Measurement(run_secs), is_timed=True).encode())
    with watch:
        secs = median(run_secs)
        # A race may pass once; thousands of calls later it rarely does.
        matters = secs < max(QUICK_SECS, best_secs * NEAR)
        max_error = max(max_error, check.after_timing(matters=matters))
        if _is_host(device):  # A driver has threads of its own.
            check.threads_left(checked.num_threads)
        is_proven = secs < prove_secs
        if is_proven:
            max_error = max(max_error, _prove(check, checked, job, device))
    return Answer(
        Measurement(run_secs, max_error=max_error, is_proven=is_proven, check_secs=watch.secs)
    )


def _timed(calls: timing.Calls, job: Job, first_secs: float) -> tuple[float, ...]:
    """Seconds of one call, one value a repeat; the caller stays off the workers' cores."""
    with off_the_workers_cores():
        return timing.run_secs(calls, job.config, first_secs, job.hopeless_secs)


def _prove(check: Check, checked: _Built, job: Job, device: Any) -> float:
    """Every case; the bits of one thread, which the pool has from then on; and new inputs."""
    max_error = check.every_case(job.config.check_secs)
    if not _is_host(device):
        check.same_again()
        return max_error
    if checked.num_threads:
        check.one_thread()
    check.unseen_inputs()
    return max_error


def _time_unchecked(sock: socket.socket, job: Job, timed: _Built, device: Any) -> Answer | None:
    calls = _calls(timed, random_values(timed.arguments, job.config.seed, device), device)
    first_secs = calls.once()
    if await_time(sock) is None:
        return None
    stay_off_the_workers_cores()
    return Answer(Measurement(timing.run_secs(calls, job.config, first_secs, job.hopeless_secs)))


def _make_reference(
    sock: socket.socket, job: Job, built: _Built, image_fd: int, device: Any
) -> Answer | None:
    """Write the image and time the untuned function."""
    config, made, watch = job.config, Made(), Stopwatch()
    if config.check:
        shown = (built.mod, built.target, built.arguments, built.function, config)
        untuned = Reference(*shown, None if _is_host(device) else device)
        with watch:
            made = make_cases(untuned, Writer(image_fd))
    known_secs = made.untuned_secs if _is_host(device) else 0.0
    run_secs: tuple[float, ...] = (known_secs,)
    if known_secs <= SLOW_REFERENCE_SECS:
        calls = _calls(built, random_values(built.arguments, job.config.seed, device), device)
        run_secs = (calls.once(),)
    sock.send(Answer(Measurement(), is_checked=True).encode())
    if await_time(sock) is None:
        return None
    if run_secs[0] <= SLOW_REFERENCE_SECS:
        run_secs = timing.run_secs(calls, config, run_secs[0], None)
    check_secs = max(watch.secs - made.untuned_secs, 0.0)
    return Answer(
        Measurement(run_secs, check_secs=check_secs), built.arguments, made.cases, made.notice
    )


def _is_host(device: Any) -> bool:
    return bool(device.dlpack_device_type() == tvm.cpu().dlpack_device_type())


def _calls(built: _Built, values: Sequence[Any], device: Any) -> timing.Calls:
    return timing.Calls(built.lib, built.name, built.function, values, device, _is_host(device))


def answer_and_close(sock: socket.socket, job: Job, module_fd: int, image_fd: int) -> None:
    """`work`, here or on a board, for a child whose tuner may have gone away meanwhile."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), sock:
        (on_board.work if job.place else work)(sock, job, module_fd, image_fd)
