# SPDX-License-Identifier: Apache-2.0
"""What a function must compute: its default lowering in float64, for several seeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kope_tvm.measure.compare import compare
from kope_tvm.measure.inputs import Distribution, contents
from kope_tvm.measure.job import Argument, Use
from kope_tvm.measure.policy import Expected, expected
from kope_tvm.mlir.execution import Executed, ExecutionError, Job, execute
from kope_tvm.mlir.float64 import in_float64
from kope_tvm.outcome import Measurement

Array = npt.NDArray[Any]

_CASES = (
    *((Distribution.UNIFORM, 0), (Distribution.UNIFORM, 1), (Distribution.WIDE, 2)),
    (Distribution.INTEGERS, 3),
)
_NAMES = {"f16": "float16", "f32": "float32", "f64": "float64", "i1": "bool"}
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-z]\w*)>")
_REPEAT = 5


@dataclass(frozen=True)
class Proof:
    """One function's inputs, and what is right for each of them."""

    text: str
    sets: tuple[tuple[Array, ...], ...]
    outputs: tuple[tuple[Expected, ...], ...]
    baseline_secs: float
    """Of the default lowering."""

    @classmethod
    def of(cls, text: str, inputs: Sequence[str], limit_secs: float = 60.0) -> Proof:
        """By running the default lowering, as it is and in float64.

        `inputs` are MLIR's types of the arguments. Raises ExecutionError where it does not run.
        """
        arguments = [_argument(number, each) for number, each in enumerate(inputs)]
        sets = tuple(_case(arguments, how, seed) for how, seed in _CASES)
        plain = execute(Job(text, repeat=_REPEAT, limit_secs=limit_secs), sets)
        wide = [tuple(_widened(array) for array in each) for each in sets]
        truth = execute(Job(in_float64(text), limit_secs=limit_secs), wide)
        pairs = zip(_CASES, plain.outputs, truth.outputs, strict=True)
        outputs = tuple(
            tuple(_expected(how, *pair) for pair in zip(ours, theirs, strict=True))
            for (how, _), ours, theirs in pairs
        )
        return cls(text, sets, outputs, min(plain.run_secs))

    def measure(self, script: str, limit_secs: float = 60.0) -> Measurement:
        """Run times of a script that is right on every set, before timing and after it."""
        job = Job(self.text, script, repeat=_REPEAT, limit_secs=limit_secs)
        try:
            done = execute(job, self.sets)
        except ExecutionError as error:
            stage = "build" if error.stage == "script" else error.stage
            return Measurement(stage=stage, code=error.code, error=error.reason)
        return self._judged(done)

    def _judged(self, done: Executed) -> Measurement:
        worst = 0.0
        for number, (outputs, wanted) in enumerate(zip(done.outputs, self.outputs, strict=True)):
            for got, want in zip(outputs, wanted, strict=True):
                error, place = _error(got, want)
                if error > 1:
                    how, seed = _CASES[number]
                    told = f"{place} ({how.value} {seed})"
                    return _wrong("E_NUMERICS", told, error)
                worst = max(worst, error)
        if not all(map(_same_bits, done.outputs[0], done.after)):
            return _wrong("E_UNSTABLE", "another result after timing", worst)
        return Measurement(
            done.run_secs, build_secs=done.build_secs, max_error=worst, is_proven=True
        )


def _wrong(code: str, told: str, error: float) -> Measurement:
    return Measurement(stage="check", code=code, error=told, max_error=min(error, 1e30))


def _error(got: Array, want: Expected) -> tuple[float, str]:
    """The worst error over the allowed one; near the default lowering's own output is right too."""
    mismatch = compare(got, want.values, want.allowed)
    if mismatch.error > 1 and want.other is not None:
        other = compare(got, want.other, want.allowed)
        mismatch = other if other.error <= 1 else mismatch
    return mismatch.error, mismatch.place


def _argument(number: int, of: str) -> Argument:
    found = _TENSOR.fullmatch(of)
    if found is None:
        raise ExecutionError("build", "E_SIGNATURE", f"{of} is no tensor of static shape")
    shape = tuple(int(each) for each in found[1].split("x") if each)
    dtype = _NAMES.get(found[2]) or f"int{found[2].lstrip('i')}"
    return Argument(f"arg{number}", dtype, shape, Use.READ)


def _case(arguments: Sequence[Argument], how: Distribution, seed: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    return tuple(contents(each, np.dtype(each.dtype), how, rng, seed) for each in arguments)


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _expected(how: Distribution, ours: Array, theirs: Array) -> Expected:
    truth = theirs if theirs.dtype.kind == "f" else None
    is_integers = how is Distribution.INTEGERS
    return expected(ours, truth, ours.dtype.name, is_integers=is_integers)


def _same_bits(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()
