# SPDX-License-Identifier: Apache-2.0
"""What a forked child does with a module for a board: build here, check and time there.

The untuned function is called on this machine for what it computes, and on the board for its time.
"""

from __future__ import annotations

import mmap
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.support import cc

from kope_tvm.device.board import Session, open_session
from kope_tvm.device.place import Place
from kope_tvm.errors import KopeError
from kope_tvm.llvm_build import build, build_untuned
from kope_tvm.measure import signature
from kope_tvm.measure.check import Check
from kope_tvm.measure.image import Writer
from kope_tvm.measure.job import CHECK, Answer, Argument, Job, await_time
from kope_tvm.measure.reference import Made, Reference, make_cases
from kope_tvm.measure.refused import RefusedError
from kope_tvm.measure.values import random_values
from kope_tvm.outcome import Measurement
from kope_tvm.stopwatch import Stopwatch

SESSION_SECS = 600.0
"""The server's own limit of a session; the tuner's is shorter and ends it."""
_CRASHES = ("killed by", "exited with status")
_NO_TIME = "the board is emulated: wall time means nothing there, and it has no simulated one"


@dataclass(frozen=True)
class _Library:
    """A function for the board, linked."""

    name: str
    path: Path
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class _Loaded:
    """The same on the board."""

    module: Any
    function: Any
    device: Any


class NoTimeError(KopeError):
    """The candidate is right, and nothing tells how long it takes."""


def work(sock: socket.socket, job: Job, module_fd: int, image_fd: int) -> None:
    """Build the module, then measure it on the board on the tuner's word."""
    assert job.place is not None
    tempfile.tempdir = job.place.folder
    started = time.perf_counter()
    try:
        with mmap.mmap(module_fd, 0, prot=mmap.PROT_READ) as text:
            mod = tvm.ir.load_json(text[:].decode())
        checked, timed = _built(mod, job)
    except Exception as error:  # whatever the compiler raises is this candidate's answer
        sock.send(_failed("build", "E_BUILD", error))
        return
    build_secs = time.perf_counter() - started
    sock.send(Answer(Measurement(stage="build", build_secs=build_secs), is_built=True).encode())
    if sock.recv(len(CHECK)) != CHECK:
        return
    try:
        answer = _measured(sock, job, mod, checked, timed, image_fd)
        if answer:
            sock.send(answer.encode())
    except RefusedError as error:
        sock.send(_failed("check", error.code, error, error.max_error))
    except Exception as error:  # likewise whatever its run, and the board, raise
        sock.send(_failed("run", _code_of(error), error))


def _failed(stage: str, code: str, error: Exception, max_error: float = 0.0) -> bytes:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "E_" in line or "session on board" in line] or [
        line for line in lines if "Error" in line or "Check failed" in line
    ]
    text = (telling or lines or [type(error).__name__])[-1][:300]
    return Answer(Measurement(stage=stage, code=code, error=text, max_error=max_error)).encode()


def _code_of(error: Exception) -> str:
    text = str(error)
    if "RPCSessionTimeoutError" in text:
        return "E_TIMEOUT"
    for code in ("E_VLEN", "E_DISK", "E_VERSION", "E_LIBRARY"):
        if code in text:
            return code
    is_board = isinstance(error, (NoTimeError, KopeError, OSError))
    return "E_DEVICE" if is_board and not any(word in text for word in _CRASHES) else "E_CRASH"


def _built(mod: tvm.IRModule, job: Job) -> tuple[_Library, _Library]:
    """The module as it is, and without the layout rewrites that happen ahead of time."""
    timed_mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    timed = _linked(timed_mod, job, "timed")
    if not job.arguments or tvm_ffi.structural_equal(mod, timed_mod):
        return timed, timed
    return _linked(mod, job, "checked"), timed


def _linked(mod: tvm.IRModule, job: Job, name: str) -> _Library:
    assert job.place is not None
    entry, func = signature.entry(mod)
    path = Path(job.place.folder) / f"{os.getpid()}-{name}.so"
    built = build(mod, tvm.target.Target(dict(job.target)))
    built.export_library(str(path), fcompile=cc.cross_compiler(job.place.linker))
    return _Library(entry, path, signature.arguments(func))


def _measured(
    sock: socket.socket,
    job: Job,
    mod: tvm.IRModule,
    checked: _Library,
    timed: _Library,
    image_fd: int,
) -> Answer | None:
    """None where the tuner has gone."""
    made = _expected(job, mod, image_fd) if job.is_reference else Made()
    session = _session(sock, job)
    loaded = _load(session, checked)
    if not job.arguments:
        run_secs = _time_alone(sock, session, job, loaded, checked)
        if run_secs is None:
            return None
        return Answer(Measurement(run_secs), checked.arguments, made.cases, made.notice)
    return _check_and_time(sock, session, job, (checked, timed), loaded, image_fd)


def _session(sock: socket.socket, job: Job) -> Session:
    """The board, waited for; the tuner's clock for this candidate starts when it is here."""
    assert job.place is not None
    place = Place(job.place.host, job.place.port, job.place.key)
    started = Answer(Measurement(), has_board=True).encode()
    return open_session(place, SESSION_SECS, lambda: _send(sock, started))


def _send(sock: socket.socket, packet: bytes) -> None:
    sock.send(packet)


def _load(session: Session, library: _Library) -> _Loaded:
    try:
        module = session.load(str(library.path))
    finally:
        library.path.unlink(missing_ok=True)
    return _Loaded(module, module[library.name], session.remote.cpu(0))


def _expected(job: Job, mod: tvm.IRModule, image_fd: int) -> Made:
    """What the untuned function computes, found out on this machine."""
    if not job.config.check:
        return Made()
    target = tvm.target.Target({"kind": "llvm", "num-cores": os.cpu_count() or 1})
    name, func = signature.entry(mod)
    function = build_untuned(mod, target).jit()[name]
    untuned = Reference(mod, target, signature.arguments(func), function, job.config)
    return make_cases(untuned, Writer(image_fd))


def _time_alone(
    sock: socket.socket, session: Session, job: Job, loaded: _Loaded, library: _Library
) -> tuple[float, ...] | None:
    values = random_values(library.arguments, job.config.seed, loaded.device)
    if await_time(sock) is None:
        return None
    return _run_secs(session, job, loaded, library.name, values)


def _check_and_time(
    sock: socket.socket,
    session: Session,
    job: Job,
    libraries: tuple[_Library, _Library],
    loaded: _Loaded,
    image_fd: int,
) -> Answer | None:
    checked, timed = libraries
    watch = Stopwatch()
    with watch:
        arguments, function = checked.arguments, loaded.function
        check = Check(job, arguments, function, image_fd, loaded.device, is_host=False)
        function(*check.values)
        max_error = check.first()
    times = await_time(sock)
    if times is None:
        return None
    values: Sequence[Any] = check.values
    subject = loaded
    if checked is not timed:
        subject = _load(session, timed)
        values = random_values(timed.arguments, job.config.seed, subject.device)
    run_secs = _run_secs(session, job, subject, timed.name, values)
    is_proven = median(run_secs) < times[0]
    with watch:
        max_error = max(max_error, check.after_timing(matters=True))
        if is_proven:
            max_error = max(max_error, check.every_case())
    return Answer(
        Measurement(run_secs, max_error=max_error, is_proven=is_proven, check_secs=watch.secs)
    )


def _run_secs(
    session: Session, job: Job, loaded: _Loaded, name: str, values: Sequence[Any]
) -> tuple[float, ...]:
    """As the board's clock tells; one call is enough where that is a simulated one."""
    info, config = session.info, job.config
    if not info.tells_time:
        raise NoTimeError(_NO_TIME)
    number, repeat, least_ms = config.number, config.repeat, config.min_repeat_ms
    if info.timer:
        number, repeat, least_ms = 1, 1, 0.0
    evaluator = loaded.module.time_evaluator(
        name, loaded.device, number=number, repeat=repeat, min_repeat_ms=int(least_ms)
    )
    return tuple(float(secs) for secs in evaluator(*values).results)
