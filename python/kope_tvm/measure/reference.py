# SPDX-License-Identifier: Apache-2.0
"""What a task's candidates are compared with, computed once: the untuned function in float64."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from kope_tvm.default_schedules import with_plain_schedules
from kope_tvm.errors import KopeError
from kope_tvm.llvm_build import build_untuned
from kope_tvm.measure import lift, signature
from kope_tvm.measure.compare import compare
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.image import Tensors, Writer
from kope_tvm.measure.inputs import Distribution, contents, poison
from kope_tvm.measure.job import Argument, Case, Use
from kope_tvm.measure.policy import UNLIFTED, Allowed, Array, Expected, expected, typical, worst
from kope_tvm.measure.telling import Telling
from kope_tvm.schedule_error import TVM_ERRORS, first_line

MAX_BYTES = 256 << 20
"""No more cases than fit, but for the least number."""
LEAST_CASES = 2
"""One before timing, another after it."""
_ORDER = (Distribution.UNIFORM, Distribution.WIDE, Distribution.INTEGERS)
_TRUSTED = 1e-2
"""A float32 function further from its float64 form does something that does not lift."""

Function = Callable[..., Any]


@dataclass(frozen=True)
class Reference:
    """The untuned function, compiled, and the first inputs it was called with."""

    mod: tvm.IRModule
    target: Any
    arguments: tuple[Argument, ...]
    function: Function
    config: MeasureConfig
    device: Any = None
    """Beside the host: there each function has TVM's own default schedule. None: the host."""


@dataclass(frozen=True)
class Made:
    """The cases of an image."""

    cases: tuple[Case, ...] = ()
    notice: str = ""
    """What the check cannot do; empty where it is whole."""
    untuned_secs: float = 0.0
    """Of the untuned function's call for the first case."""


def make_cases(reference: Reference, writer: Writer) -> Made:
    """Compute every case and store it, until time or room is used up."""
    truth, notice = _truth(reference)
    maker = _Maker(reference, truth)
    started = math.inf
    cases: list[Case] = []
    last: Tensors | None = None
    telling = Telling(reference.arguments)
    for how, seed in _plan(reference):
        late = time.perf_counter() - started > reference.config.check_secs
        if _is_enough(cases, writer.num_bytes, is_late=late):
            break
        case, tensors = maker.case(how, seed)
        writer.add(tensors)
        telling.see(case, tensors, last)
        cases.append(case)
        last = tensors
        started = min(started, time.perf_counter())
    notices = [notice, maker.notice, telling.notice()]
    return Made(tuple(cases), "; ".join(filter(None, notices)), maker.untuned_secs)


def _is_enough(cases: Sequence[Case], num_bytes: int, *, is_late: bool) -> bool:
    if len(cases) < LEAST_CASES:
        return False
    is_full = num_bytes * (len(cases) + 1) > MAX_BYTES * len(cases)
    return is_full or (len(cases) >= len(_ORDER) and is_late)


def _plan(reference: Reference) -> Iterator[tuple[Distribution, int]]:
    """One seed of every distribution first."""
    for number in range(reference.config.num_seeds):
        for how in _ORDER:
            yield how, reference.config.seed + number
        if number == 0 and not lift.has_reduction(reference.mod):
            yield Distribution.SPECIAL, reference.config.seed


def _truth(reference: Reference) -> tuple[Function | None, str]:
    """The untuned function in float64; None and why where there is none, or no need of one."""
    if not lift.has_floats(reference.mod):
        return None, ""
    try:
        mod = lift.lifted(reference.mod)
        if reference.device is not None:
            return _compiled_beside(mod, reference.target), ""
        return _compiled(_hastened(mod), reference.target), ""
    except (KopeError, tvm.error.InternalError, RuntimeError, ValueError, TypeError) as error:
        return None, f"compared with the untuned function, not with float64: {first_line(error)}"


def _compiled_beside(mod: tvm.IRModule, target: Any) -> Function:
    try:
        return _compiled(mod, target)
    except TVM_ERRORS:
        return _compiled(with_plain_schedules(mod, target), target)


def _quick_form(mod: tvm.IRModule, reference: Reference) -> tvm.IRModule:
    return mod if reference.device is not None else _hastened(mod)


def _hastened(mod: tvm.IRModule) -> tvm.IRModule:
    """The quick form; the module as it is where it has none."""
    try:
        return lift.hastened(mod)
    except (tvm.error.InternalError, RuntimeError, ValueError, TypeError):
        return mod


def _compiled(mod: tvm.IRModule, target: Any) -> Function:
    found: Function = build_untuned(mod, target).jit()[signature.entry(mod)[0]]
    return found


class _Maker:
    """Calls the untuned function and its float64 form on the same inputs."""

    def __init__(self, reference: Reference, truth: Function | None) -> None:
        self._arguments = reference.arguments
        self._untuned = reference.function
        self._quick: Function | None = None
        self._truth = truth
        self._reference = reference
        self.notice = ""
        self.untuned_secs = self._secs = 0.0

    def case(self, how: Distribution, seed: int) -> tuple[Case, Tensors]:
        """The inputs of one case and what is expected after them."""
        rng = np.random.default_rng([seed, list(Distribution).index(how)])
        before = [
            contents(argument, signature.host_dtype(argument.dtype), how, rng, seed)
            if argument.filled
            else None
            for argument in self._arguments
        ]
        ours = self._ours(before)
        truths = self._truths(before, ours)
        rows = [
            expected(mine, true, argument.dtype, is_integers=how is Distribution.INTEGERS)
            if mine is not None
            else None
            for argument, mine, true in zip(self._arguments, ours, truths, strict=True)
        ]
        if how is Distribution.SPECIAL:
            rows = [
                row and self._as_untuned(row, mine) for row, mine in zip(rows, ours, strict=True)
            ]
        return _case(f"{how.value} {seed}", rows), _tensors(before, rows)

    def _as_untuned(self, row: Expected, mine: Array | None) -> Expected:
        """The case asks what becomes of NaN: the untuned function's answer is the right one."""
        assert mine is not None
        return Expected(mine, row.allowed)

    def _ours(self, before: Sequence[Array | None]) -> list[Array | None]:
        """The untuned function's outputs: by itself at first, then by its quick form."""
        if self._quick is None:
            outputs = self._call(self._untuned, before, widened=False)
            self.untuned_secs = self._secs
            self._quick = self._agreeing(before, outputs)
            return outputs
        return self._call(self._quick, before, widened=False)

    def _agreeing(
        self, before: Sequence[Array | None], outputs: Sequence[Array | None]
    ) -> Function:
        """The quick form where its outputs are the same but for the last bits."""
        quick = _quick_form(self._reference.mod, self._reference)
        if quick is self._reference.mod or not lift.is_parallel(quick):
            return self._untuned
        function = _compiled(quick, self._reference.target)
        for argument, got, want in zip(
            self._arguments, self._call(function, before, widened=False), outputs, strict=True
        ):
            if got is None or want is None:
                continue
            rtol = UNLIFTED.get(argument.dtype, 0.0)
            if compare(got, want, Allowed(rtol, typical(want, want.dtype))).error > 1:
                return self._untuned
        return function

    def _truths(
        self, before: Sequence[Array | None], ours: Sequence[Array | None]
    ) -> list[Array | None]:
        nothing: list[Array | None] = [None] * len(self._arguments)
        if self._truth is None:
            return nothing
        truths = self._call(self._truth, before, widened=True)
        for argument, mine, true in zip(self._arguments, ours, truths, strict=True):
            if argument.dtype != "float32" or mine is None or true is None:
                continue
            off = worst(mine.astype(np.float64), true, typical(true, true.dtype))
            if off > _TRUSTED and not self.notice:
                self._truth = None
                self.notice = (
                    f"compared with the untuned function: its float64 form is {off:.1e} off "
                    f"in {argument.name}"
                )
                return nothing
        return truths

    def _call(
        self, function: Function, before: Sequence[Array | None], *, widened: bool
    ) -> list[Array | None]:
        values = [
            _value(argument, array, self._reference.device, widened=widened)
            for argument, array in zip(self._arguments, before, strict=True)
        ]
        started = time.perf_counter()
        function(*values)
        if self._reference.device is not None:
            self._reference.device.sync()
        self._secs = time.perf_counter() - started
        return [
            value.numpy() if argument.written else None
            for argument, value in zip(self._arguments, values, strict=True)
        ]


def _value(argument: Argument, array: Array | None, device: Any, *, widened: bool) -> Any:
    if argument.use is Use.SCALAR:
        return signature.scalar_value(argument.dtype)
    is_float = argument.dtype.startswith(("float", "bfloat"))
    dtype = np.dtype(np.float64) if widened and is_float else signature.host_dtype(argument.dtype)
    held = (
        np.full(argument.shape, poison(argument, dtype)) if array is None else array.astype(dtype)
    )
    tensor = tvm.runtime.empty(
        argument.shape, "float64" if widened and is_float else argument.dtype, device
    )
    return tensor.copyfrom(held) if held.size else tensor


def _case(name: str, rows: Sequence[Expected | None]) -> Case:
    return Case(
        name,
        tuple(None if row is None else row.allowed for row in rows),
        tuple(row is not None and row.other is not None for row in rows),
    )


def _tensors(before: Sequence[Array | None], rows: Sequence[Expected | None]) -> Tensors:
    return Tensors(
        tuple(before),
        tuple(None if row is None else row.values for row in rows),
        tuple(None if row is None else row.other for row in rows),
    )
