# SPDX-License-Identifier: Apache-2.0
"""A process that holds one operator of torch, and later kope's, and times both in turns on a GPU.

`python -m kope_tvm.bench.cuda_contender NAME SEED` compiles torch's form, says so in a line of
JSON, reads one line, a JSON object of scheduled modules' files by contender, and answers with a
`Contest`. Every call is timed alone, by events, behind a copy that leaves nothing of it in the
cache and that outlasts what the host needs to queue it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kope_tvm.bench.cuda_pairs import PAIRS, Pair

NUM_TURNS = 24
"""Every other one decides what is used, the others are what is reported of it."""
CALLS = 8
"""Of one contender in one turn."""
FLUSH_BYTES = 512 << 20
FLUSHES = 8
"""Copies take a millisecond: several times what Python needs for the slowest call of torch, which
would otherwise be taken for the device's time.
"""
IN_A_ROW = 50
ERROR_FACTOR = 4.0
"""So many times torch's own error is as right as torch."""
LEAST_ERROR = {"float32": 2e-6, "float16": 1e-3}
TORCH = "torch-compile"
PLAIN_TORCH = "torch-eager"


@dataclass(frozen=True)
class Contest:
    """One operator's contenders, timed in turns."""

    turns: Mapping[str, tuple[float, ...]]
    """Seconds of one call alone, cache cold; one value a turn."""
    in_a_row: Mapping[str, float]
    """Seconds of one call of many, back to back, launch included."""
    errors: Mapping[str, float]
    """Distance from float64 over its norm."""
    compile_secs: float = 0.0
    """Of torch."""
    clocks: str = ""
    """SM and memory clock and temperature, before and after."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why a contender has no time."""


class Stage:
    """The inputs, what is right, and the clock."""

    def __init__(self, pair: Pair, seed: int) -> None:
        import torch

        from kope_tvm.measure.signature import arguments

        self.torch = torch
        self._arguments = arguments(pair.module()["main"])
        torch.manual_seed(seed)
        *given, out = self._arguments
        self.inputs = [
            torch.rand(each.shape, device="cuda").mul_(2).sub_(1).to(getattr(torch, each.dtype))
            for each in given
        ]
        self.out_shape, self.out_dtype = out.shape, getattr(torch, out.dtype)
        self._flush = [
            torch.empty(FLUSH_BYTES // 2, dtype=torch.int8, device="cuda") for _ in range(2)
        ]
        self.call: Callable[..., Any] = lambda *inputs: pair.torch(torch.nn.functional, *inputs)
        self._truth = self.call(*(each.double() for each in self.inputs))

    def error(self, output: Any) -> float:
        """How far an output is from the truth."""
        gap = (output.double() - self._truth).norm() / self._truth.norm()
        return float(gap) if bool(self.torch.isfinite(output).all()) else float("inf")

    def allowed(self, torch_error: float) -> float:
        least = LEAST_ERROR[str(self.out_dtype).partition(".")[2]]
        return max(ERROR_FACTOR * torch_error, least)

    def alone(self, call: Callable[[], Any]) -> float:
        """The median of a turn's calls."""
        cuda = self.torch.cuda
        pairs = [[cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(CALLS)]
        for start, end in pairs:
            for _ in range(FLUSHES):
                self._flush[0].copy_(self._flush[1])
            start.record()
            call()
            end.record()
        cuda.synchronize()
        return float(median(start.elapsed_time(end) / 1e3 for start, end in pairs))

    def in_a_row(self, call: Callable[[], Any]) -> float:
        cuda = self.torch.cuda
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        call()
        start.record()
        for _ in range(IN_A_ROW):
            call()
        end.record()
        cuda.synchronize()
        return float(start.elapsed_time(end) / 1e3 / IN_A_ROW)


def main() -> None:
    """Compile torch's form, then hold the contest that the line on stdin asks for."""
    name, seed = sys.argv[1], int(sys.argv[2])
    pair = next(each for each in PAIRS if each.name == name)
    began = time.perf_counter()
    stage = Stage(pair, seed)
    compiled = stage.torch.compile(stage.call)
    for _ in range(3):
        compiled(*stage.inputs)
    stage.torch.cuda.synchronize()
    compile_secs = time.perf_counter() - began
    _say({"ready": compile_secs})
    files = json.loads(sys.stdin.readline() or "{}")
    _say(asdict(_contest(stage, compiled, files, compile_secs)))


def _contest(stage: Stage, compiled: Any, files: Mapping[str, str], compile_secs: float) -> Contest:
    calls: dict[str, Callable[[], Any]] = {
        TORCH: lambda: compiled(*stage.inputs),
        PLAIN_TORCH: lambda: stage.call(*stage.inputs),
    }
    failed: dict[str, str] = {}
    errors = {name: stage.error(call()) for name, call in calls.items()}
    for name, file in files.items():
        try:
            call = _tvm_call(stage, Path(file))
            errors[name] = stage.error(call())
        except (RuntimeError, ValueError, TypeError) as error:
            failed[name] = str(error).strip().splitlines()[-1][:300]
            continue
        if errors[name] <= stage.allowed(errors[TORCH]):
            calls[name] = call
        else:
            failed[name] = f"wrong: {errors[name]:.2g} from float64, torch {errors[TORCH]:.2g}"
    before = _clocks()
    turns = _in_turns(stage, calls)
    in_a_row = {name: stage.in_a_row(call) for name, call in calls.items()}
    return Contest(turns, in_a_row, errors, compile_secs, f"{before}; {_clocks()}", failed)


def _in_turns(stage: Stage, calls: Mapping[str, Callable[[], Any]]) -> dict[str, tuple[float, ...]]:
    turns: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(NUM_TURNS):
        for name, call in calls.items():
            turns[name].append(stage.alone(call))
    return {name: tuple(values) for name, values in turns.items()}


def _tvm_call(stage: Stage, file: Path) -> Callable[[], Any]:
    """A scheduled module's `main` on torch's own tensors, without copies."""
    import tvm

    from kope_tvm.llvm_build import build
    from kope_tvm.machine import load_target, tvm_target

    mod = tvm.ir.load_json(file.read_text(encoding="utf-8"))
    library = build(mod, tvm_target(load_target(os.environ["KOPE_BENCH_TARGET"]))).jit()
    function = library["main"]

    def call() -> Any:
        out = stage.torch.empty(stage.out_shape, dtype=stage.out_dtype, device="cuda")
        function(*stage.inputs, out)
        return out

    call.library = library  # type: ignore[attr-defined]
    return call


def _clocks() -> str:
    fields = "clocks.sm,clocks.mem,temperature.gpu"
    asked = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.stdout.strip()


def _say(row: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
