# SPDX-License-Identifier: Apache-2.0
"""Linalg through MLIR's own compiler on this machine: by its default lowering, or by a script.

Everything that a script touches, and all code that comes of it, is in a process of its own that
can die. One thread runs: what a script spreads over `scf.forall` is put one after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from kope_tvm.errors import KopeError
from kope_tvm.mlir.allow_list import check_text

Array = npt.NDArray[Any]

_SECRETS = ("OPENAI_API_KEY",)
_MAX_ANSWER_BYTES = 1 << 16


class ExecutionError(KopeError):
    """A module or a script was refused, did not compile, or died; `code` says which."""

    def __init__(self, stage: str, code: str, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.stage, self.code, self.reason = stage, code, reason
        """`script`, `build`, `run` or `check`; `E_...`; MLIR's own words."""


@dataclass(frozen=True)
class Job:
    """What is run: a module of one function, and how long it is timed."""

    module: str
    script: str | None = None
    """A module with the named sequence `__transform_main`; None for MLIR's default lowering."""
    function: str = ""
    """Empty for the only one there is."""
    repeat: int = 0
    min_repeat_secs: float = 0.02
    limit_secs: float = 60.0
    """Of wall time, for all of it."""
    memory_bytes: int = 2 << 30


@dataclass(frozen=True)
class Executed:
    """What came of a job."""

    outputs: tuple[tuple[Array, ...], ...]
    """One tuple a set of arguments."""
    run_secs: tuple[float, ...]
    """Seconds of one call, one value a repeat."""
    after: tuple[Array, ...]
    """The first set's outputs, once more after timing; empty where none was asked for."""
    build_secs: float


def run(
    module_text: str, arguments: Sequence[Array], *, script: str | None = None
) -> tuple[Array, ...]:
    """The outputs of a module's only function; raises ExecutionError where there are none.

    bfloat16 goes in and comes out as its bits, in uint16.
    """
    return execute(Job(module_text, script), [arguments]).outputs[0]


def time_calls(
    module_text: str, arguments: Sequence[Array], *, script: str | None = None, repeat: int = 5
) -> tuple[float, ...]:
    """Seconds of one call, one value a repeat, on one thread."""
    return execute(Job(module_text, script, repeat=repeat), [arguments]).run_secs


def execute(job: Job, sets: Sequence[Sequence[Array]]) -> Executed:
    """Call the function once for each set of arguments, then time it with the first."""
    if job.script is not None:
        verdict = check_text(job.script)
        if not verdict.accepted:
            raise ExecutionError("script", verdict.code, verdict.reason)
    with TemporaryDirectory(prefix="kope-mlir-") as name:
        folder = Path(name)
        _write(folder, job, sets)
        _work(folder, job)
        return _read(folder, job, len(sets))


def _write(folder: Path, job: Job, sets: Sequence[Sequence[Array]]) -> None:
    (folder / "module.mlir").write_text(job.module)
    if job.script is not None:
        (folder / "script.mlir").write_text(job.script)
    for number, arguments in enumerate(sets):
        np.savez(folder / f"arguments{number}.npz", *arguments)
    told = {
        "function": job.function,
        "num_sets": len(sets),
        "repeat": job.repeat,
        "min_repeat_secs": job.min_repeat_secs,
        "memory_bytes": job.memory_bytes,
    }
    (folder / "job.json").write_text(json.dumps(told))


def _work(folder: Path, job: Job) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kope_tvm.mlir.execution_worker", str(folder)],
        env={**_environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, stderr = process.communicate(timeout=job.limit_secs)
    except subprocess.TimeoutExpired as error:
        raise ExecutionError("run", "E_TIMEOUT", f"after {job.limit_secs:.0f} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        raise _death(process.returncode, stderr.decode(errors="replace"))


def _death(status: int, said: str) -> ExecutionError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return ExecutionError("run", "E_CRASH", f"{how}: {lines[-1][:200] if lines else 'no word'}")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def _read(folder: Path, job: Job, num_sets: int) -> Executed:
    """What the worker left, read with suspicion: it ran code that nobody vouches for."""
    try:
        with (folder / "answer.json").open("rb") as file:
            answer = json.loads(file.read(_MAX_ANSWER_BYTES))
        if "code" in answer:
            told = (str(answer[name]) for name in ("stage", "code", "error"))
            raise ExecutionError(*told)
        outputs = tuple(_arrays(folder / f"outputs{number}.npz") for number in range(num_sets))
        after = _arrays(folder / "after.npz") if job.repeat else ()
        run_secs = tuple(float(secs) for secs in answer["run_secs"])
        return Executed(outputs, run_secs, after, float(answer["build_secs"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExecutionError("run", "E_CRASH", f"no answer to read: {error}") from error


def _arrays(file: Path) -> tuple[Array, ...]:
    with np.load(file, allow_pickle=False) as held:
        return tuple(held[f"arr_{number}"] for number in range(len(held.files)))
