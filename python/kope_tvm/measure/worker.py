# SPDX-License-Identifier: Apache-2.0
"""What a forked child does with its one module: build, check, time, answer.

It waits for the word before it checks and before it times.

Everything here may be killed at any instruction, and shares its process with native code of
a candidate's.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from kope_tvm.errors import KopeError
from kope_tvm.measure import image, signature, timing
from kope_tvm.measure.compare import compare
from kope_tvm.measure.job import CHECK, TIME, Answer, Argument, Job, Use
from kope_tvm.measure.mismatch import mismatch_map
from kope_tvm.outcome import Measurement

SLOW_REFERENCE_SECS = 0.1
"""An untuned function slower than this is timed by the one call that makes its outputs."""


class _RefusedError(KopeError):
    """The candidate ran and is wrong."""

    def __init__(self, code: str, error: str, max_error: float = 0.0) -> None:
        super().__init__(error)
        self.code = code
        self.max_error = max_error


@dataclass(frozen=True)
class _Built:
    """A function of the module, compiled."""

    name: str
    lib: Any
    function: Any
    arguments: tuple[Argument, ...]


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
    if sock.recv(len(CHECK)) != CHECK:
        return
    try:
        answer = _measure(sock, job, checked, timed, image_fd)
        if answer:
            sock.send(answer.encode())
    except _RefusedError as error:
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
    timed = _compile(timed_mod, target)
    if not job.arguments or tvm_ffi.structural_equal(mod, timed_mod):
        return timed, timed
    return _compile(mod, target), timed


def _compile(mod: tvm.IRModule, target: tvm.target.Target) -> _Built:
    name, func = signature.entry(mod)
    arguments = signature.arguments(func)
    lib = tvm.compile(mod, target=target).jit()
    # Looking the function up is what makes LLVM emit machine code.
    return _Built(name, lib, lib[name], arguments)


def _measure(
    sock: socket.socket, job: Job, checked: _Built, timed: _Built, image_fd: int
) -> Answer | None:
    """None where the tuner has gone."""
    kind = str(job.target["kind"])
    device = tvm.device("cpu" if kind in ("llvm", "c") else kind)
    if job.is_reference:
        return _make_reference(sock, job, checked, image_fd, device)
    check = _Check(job, checked, image_fd, device) if job.arguments else None
    max_error = check.run() if check else 0.0
    if check and checked is timed:
        calls, first_secs = check.calls, check.first_secs
    else:
        calls = _calls(timed, _random_values(job, timed, device), device)
        first_secs = calls.once()
    if not _is_time(sock):
        return None
    _keep_off_the_workers_cores()
    run_secs = timing.run_secs(calls, job.config, first_secs, job.hopeless_secs)
    if check and checked is timed:
        # A race may pass once; thousands of calls later it rarely does.
        max_error = max(max_error, check.compare())
    return Answer(Measurement(run_secs, max_error=max_error))


def _keep_off_the_workers_cores() -> None:
    """TVM binds its workers, not the caller: on a worker's core both would wait for each other.

    After the first call: TVM counts the cores it may use when it starts its workers.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _is_time(sock: socket.socket) -> bool:
    """Wait until the candidate before this one has left the machine."""
    return sock.recv(len(TIME)) == TIME


def _random_values(job: Job, built: _Built, device: Any) -> list[Any]:
    rng = np.random.default_rng(job.config.seed)
    return [_random_value(argument, rng, device) for argument in built.arguments]


def _random_value(argument: Argument, rng: np.random.Generator, device: Any) -> Any:
    if argument.use is Use.SCALAR:
        return signature.scalar_value(argument.dtype)
    dtype = signature.host_dtype(argument.dtype)
    return _tensor(argument, signature.random_array(argument, dtype, rng), device)


def _tensor(argument: Argument, contents: Any, device: Any) -> Any:
    tensor = tvm.runtime.empty(argument.shape, argument.dtype, device)
    if contents.size:
        tensor.copyfrom(contents)
    return tensor


def _make_reference(
    sock: socket.socket, job: Job, built: _Built, image_fd: int, device: Any
) -> Answer | None:
    """Write the image and time the untuned function."""
    values = _random_values(job, built, device)
    before = [
        value.numpy() if argument.filled else None
        for argument, value in zip(built.arguments, values, strict=True)
    ]
    calls = _calls(built, values, device)
    first_secs = calls.once()
    after = [
        value.numpy() if argument.written else None
        for argument, value in zip(built.arguments, values, strict=True)
    ]
    image.write(image_fd, image.Tensors(tuple(before), tuple(after)))
    if not _is_time(sock):
        return None
    if first_secs > SLOW_REFERENCE_SECS:
        return Answer(Measurement((first_secs,)), built.arguments)
    run_secs = timing.run_secs(calls, job.config, first_secs, None)
    return Answer(Measurement(run_secs), built.arguments)


def _calls(built: _Built, values: list[Any], device: Any) -> timing.Calls:
    is_host = device.dlpack_device_type() == tvm.cpu().dlpack_device_type()
    return timing.Calls(built.lib, built.name, built.function, values, device, is_host)


class _Check:
    """The candidate's own call on the image's inputs, compared with the image's outputs."""

    def __init__(self, job: Job, built: _Built, image_fd: int, device: Any) -> None:
        _same_signature(built.arguments, job.arguments)
        self.arguments = job.arguments
        dtypes = [
            np.dtype(np.void) if arg.use is Use.SCALAR else signature.host_dtype(arg.dtype)
            for arg in job.arguments
        ]
        self.tensors = image.read(image_fd, job.arguments, dtypes)
        self.values = [
            self._value(argument, dtype, before, device)
            for argument, dtype, before in zip(
                job.arguments, dtypes, self.tensors.before, strict=True
            )
        ]
        self.calls = _calls(built, self.values, device)
        self.first_secs = 0.0
        self._seen: dict[int, tuple[Any, float]] = {}

    @staticmethod
    def _value(argument: Argument, dtype: Any, before: Any, device: Any) -> Any:
        if before is not None:
            return _tensor(argument, before, device)
        if argument.written:
            return _tensor(argument, signature.poison(argument, dtype), device)
        return signature.scalar_value(argument.dtype)

    def run(self) -> float:
        """Call it once; the worst error of all outputs, in units of the allowed one."""
        self.first_secs = self.calls.once()
        worst = self.compare(every=True)
        for argument, value, before, _ in self._rows():
            if argument.filled and argument.written and before.size:
                value.copyfrom(before)
        return worst

    def compare(self, *, every: bool = False) -> float:
        """The worst error now; outputs that timing keeps updating only where `every`."""
        worst = 0.0
        for argument, value, before, after in self._rows():
            if not argument.written:
                _unchanged(argument, value, before)
            elif every or not argument.filled:
                worst = max(worst, self._error(argument, value, after))
        return worst

    def _error(self, argument: Argument, value: Any, after: Any) -> float:
        """The same bytes as in the first comparison need no second one."""
        output = value.numpy()
        seen, error = self._seen.get(id(value), (None, 0.0))
        if seen is None or not np.array_equal(_bytes(output), _bytes(seen)):
            error = _right(argument, output, after)
            self._seen[id(value)] = output, error
        return error

    def _rows(self) -> list[tuple[Argument, Any, Any, Any]]:
        rows = zip(
            self.arguments, self.values, self.tensors.before, self.tensors.after, strict=True
        )
        return [row for row in rows if row[0].use is not Use.SCALAR]


def _same_signature(given: tuple[Argument, ...], expected: tuple[Argument, ...]) -> None:
    def shapes(arguments: tuple[Argument, ...]) -> list[tuple[str, tuple[int, ...]]]:
        return [(argument.dtype, argument.shape) for argument in arguments]

    if shapes(given) != shapes(expected):
        raise _RefusedError(
            "E_NUMERICS",
            f"takes ({', '.join(map(str, given))}), expected ({', '.join(map(str, expected))})",
        )


def _unchanged(argument: Argument, value: Any, before: Any) -> None:
    if not np.array_equal(_bytes(value.numpy()), _bytes(before)):
        raise _RefusedError("E_INPUT_WRITTEN", f"the input {argument} was changed by the call")


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _right(argument: Argument, output: Any, after: Any) -> float:
    mismatch = compare(output, after)
    if mismatch.error > 1:
        where = mismatch_map(output, after, signature.poison(argument, output.dtype))
        text = f"{mismatch.place} of {argument.name}; {where}"
        raise _RefusedError("E_NUMERICS", text, min(mismatch.error, 1e30))
    return mismatch.error


def answer_and_close(sock: socket.socket, job: Job, module_fd: int, image_fd: int) -> None:
    """`work` for a child whose tuner may have gone away meanwhile."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), sock:
        work(sock, job, module_fd, image_fd)
