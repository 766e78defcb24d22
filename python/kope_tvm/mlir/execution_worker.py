# SPDX-License-Identifier: Apache-2.0
"""The process that parses a script, compiles what comes of it and calls it; it may die.

Its whole world is a folder: `job.json`, `module.mlir`, `script.mlir` and one `.npz` a set of
arguments in; `answer.json` and one `.npz` a set of outputs out.
"""

from __future__ import annotations

import ctypes
import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from kope_tvm.mlir.bindings import ir
from kope_tvm.mlir.called import Array, Called, signature_of
from kope_tvm.mlir.lowering import LoweringError, lower, scripted

_PR_SET_PDEATHSIG = 1
_MOST_SAID = 8


class _Said:
    """What MLIR complains of, less what it would print."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, diagnostic: Any) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            self._lines += [diagnostic.message, *(note.message for note in diagnostic.notes)]
        return True

    @property
    def text(self) -> str:
        return "; ".join(line.split("\n")[0] for line in self._lines[:_MOST_SAID])


def main(folder: Path) -> None:
    """Do the job of the folder, and say there how it went."""
    job = json.loads((folder / "job.json").read_text())
    said = _Said()
    try:
        with ir.Context() as context, ir.Location.unknown():
            context.attach_diagnostic_handler(said)
            answer = _done(folder, job)
    except LoweringError as error:
        reason = said.text or str(error)
        answer = {"stage": error.stage, "code": error.code, "error": reason[:400]}
    (folder / "answer.json").write_text(json.dumps(answer))


def _done(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    called = _compiled(folder, job)
    build_secs = time.perf_counter() - started
    _limit(job["memory_bytes"])
    sets = [_read(folder / f"arguments{number}.npz") for number in range(job["num_sets"])]
    for number, arguments in enumerate(sets):
        _write(folder / f"outputs{number}.npz", called(arguments))
    run_secs: tuple[float, ...] = ()
    if job["repeat"]:
        called.fill(sets[0])
        run_secs = called.times(job["repeat"], job["min_repeat_secs"])
        _write(folder / "after.npz", called(sets[0]))
    return {"run_secs": run_secs, "build_secs": build_secs}


def _compiled(folder: Path, job: dict[str, Any]) -> Called:
    try:
        module = ir.Module.parse((folder / "module.mlir").read_text())
    except ir.MLIRError as error:
        raise LoweringError("build", "E_PARSE", str(error)) from error
    signature = signature_of(module, job["function"])
    script = folder / "script.mlir"
    if script.exists():
        scripted(module, script.read_text())
        if signature_of(module, signature.name) != signature:
            raise LoweringError("script", "E_SIGNATURE", "the script changed the signature")
    _keep(module, signature.name)
    _prepare(module, signature.name)
    lower(module, has_vectors=script.exists())
    return Called(module, signature)


def _keep(module: Any, name: str) -> None:
    """This function alone: nothing calls another, and patterns are applied to one at a time."""
    for op in list(module.body.operations):
        if op.operation.name == "func.func" and op.name.value != name:
            op.operation.erase()


def _prepare(module: Any, name: str) -> None:
    """A C interface to call, and arguments that stay as they are: tensors are values."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and op.name.value == name:
            op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
            read_only = {"bufferization.writable": ir.BoolAttr.get(value=False)}
            given = len(op.type.inputs)
            op.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get(read_only)] * given)


def _read(file: Path) -> list[Array]:
    with np.load(file, allow_pickle=False) as held:
        return [held[f"arr_{number}"] for number in range(len(held.files))]


def _write(file: Path, arrays: tuple[Array, ...]) -> None:
    np.savez(file, *arrays)


def _limit(memory_bytes: int) -> None:
    """No more than there is plus the function's share."""
    status = Path("/proc/self/status").read_text()
    used_kib = int(status.partition("VmData:")[2].split(maxsplit=1)[0])
    limit = used_kib * 1024 + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    main(Path(sys.argv[1]))
