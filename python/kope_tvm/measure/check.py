# SPDX-License-Identifier: Apache-2.0
"""A candidate's own calls on an image's inputs, compared with what the image expects.

A quick look before timing, another after it on other inputs at the same addresses, and every case
where the time makes it worth while.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from kope_tvm.measure import image, signature
from kope_tvm.measure.compare import Mismatch, compare, first_difference, same_bits
from kope_tvm.measure.image import Tensors
from kope_tvm.measure.inputs import poison
from kope_tvm.measure.job import Argument, Case, Job, Use
from kope_tvm.measure.memory import ArgumentSet
from kope_tvm.measure.mismatch import mismatch_map
from kope_tvm.measure.novelty import novelty
from kope_tvm.measure.policy import Allowed, Array
from kope_tvm.measure.refused import RefusedError, require_same_signature

_NUM_SETS = 3
"""Timing goes round these, one a repeat."""
_MAX_SET_BYTES = 8 << 20
"""Larger arguments have no second place: putting them there would cost more than the timing."""
_MOST_RACES = 64
_RACE_SECS = 0.01
"""A race shows in one call of many."""
_GPU_RACE_SECS = 0.1
"""Copies to and from the device take most of it."""


class Check:
    """One candidate's outputs, input by input."""

    def __init__(
        self,
        job: Job,
        arguments: tuple[Argument, ...],
        function: Callable[..., Any],
        image_fd: int,
        device: Any,
        *,
        is_host: bool,
    ) -> None:
        require_same_signature(arguments, job.arguments)
        self._arguments, self._cases, self._function = job.arguments, job.cases, function
        self._device, self._is_host = device, is_host
        self._dtypes = [
            None if arg.use is Use.SCALAR else signature.host_dtype(arg.dtype)
            for arg in job.arguments
        ]
        self._tensors = image.read(image_fd, job.arguments, self._dtypes, job.cases)
        self._num_threads = num_threads()
        self._sets = [self._new_set()]
        self._prepare(self._sets[0], 0)
        self._first: list[Array] = []

    @property
    def values(self) -> Sequence[Any]:
        """What the first call takes."""
        return self._sets[0].values

    def other_values(self, number: int) -> Sequence[Any]:
        """The same contents at other addresses, for another repeat."""
        number %= _NUM_SETS
        if number == 0 or self._num_bytes() > _MAX_SET_BYTES:
            return self.values
        while len(self._sets) <= number:
            self._sets.append(self._new_set())
            self._prepare(self._sets[-1], 0)
        return self._sets[number].values

    def first(self) -> float:
        """The worst error of the call just made, in units of the allowed one."""
        error = self._compare(self._sets[0], 0)
        self._first = [array.copy() for array in self._outputs(self._sets[0])]
        for argument, slot, before in self._rows(self._sets[0], 0):
            if argument.filled and argument.written:
                slot.fill(before)
        return error

    def after_timing(self, *, matters: bool) -> float:
        """The worst error of what timing left and, where it `matters`, of one more call.

        On another case's inputs at the same addresses, over the outputs that timing left: a result
        kept from an earlier call, by address, by count or where it lies, is not that case's.
        """
        try:
            left = (self._left(arguments) for arguments in self._sets)
            worst = max(left)
            other = min(1, len(self._cases) - 1)
            again = self._over_old_outputs(self._sets[0], other) if matters else 0.0
        except RefusedError as error:
            raise RefusedError(error.code, f"after timing: {error}", error.max_error) from error
        return max(worst, again)

    def _left(self, arguments: ArgumentSet) -> float:
        if self._is_as_before(arguments):
            return 0.0
        return self._compare(arguments, 0, updated=False)

    def every_case(self, enough_secs: float = math.inf) -> float:
        """The worst error of the cases not yet seen, at addresses of their own.

        One seed of each distribution, the first ones, and more while they take less in all.
        """
        fresh, worst, started = self._new_set(), 0.0, time.perf_counter()
        for number in range(2, len(self._cases)):
            is_first = self._cases[number].seed == self._cases[0].seed
            if not is_first and time.perf_counter() - started > enough_secs:
                break
            worst = max(worst, self._again(fresh, number))
        return worst

    def same_again(self) -> None:
        """Refuse a candidate whose outputs differ from call to call: its threads race."""
        fresh, began = self._new_set(), time.perf_counter()
        for _ in range(_MOST_RACES):
            self._same_bits(fresh, "in another call")
            if time.perf_counter() - began > _GPU_RACE_SECS:
                return

    def one_thread(self) -> None:
        """Refuse a parallel candidate whose outputs are not the same bits, and those of one thread.

        Which thread does what is all that may differ: no sum is split by it.
        """
        fresh, began = self._new_set(), time.thread_time()
        for _ in range(_MOST_RACES):
            self._same_bits(fresh, "in another call")
            # Of this thread: on a busy machine its threads meet the more rarely, the less they get.
            if time.thread_time() - began > _RACE_SECS:
                break
        tvm.get_global_func("runtime.config_threadpool")(1, 1)
        self._same_bits(fresh, "on one thread")

    def _same_bits(self, arguments: ArgumentSet, how: str) -> None:
        self._prepare(arguments, 0)
        self._call(arguments)
        rows = zip(self._written(), self._outputs(arguments), self._first, strict=True)
        for argument, got, want in rows:
            if not same_bits(got, want):
                at = first_difference(got, want)
                raise RefusedError("E_RACE", f"{argument.name} differs {how} at {at}")

    def unseen_inputs(self) -> None:
        """Refuse a candidate that keeps results with the inputs they belong to: it is right."""
        fresh = self._new_set()
        self._prepare(fresh, 0)
        rows = [(slot, held) for _, slot, held in self._rows(fresh, 0) if held is not None]
        found = novelty(lambda: self._call(fresh), rows)
        if found.is_told:
            text = f"{found.unseen_secs:.2g} s on new inputs, {found.seen_secs:.2g} s on them again"
            raise RefusedError("E_CACHED", text)

    def threads_left(self, num_allowed: int) -> None:
        """Refuse a candidate after which more threads run than TVM's own pool has."""
        left = num_threads() - self._num_threads
        if left > num_allowed:
            raise RefusedError(
                "E_THREADS", f"{left} threads run after its last call; allowed {num_allowed}"
            )

    def _again(self, arguments: ArgumentSet, number: int) -> float:
        self._prepare(arguments, number)
        return self._called(arguments, number)

    def _over_old_outputs(self, arguments: ArgumentSet, number: int) -> float:
        for _, slot, before in self._rows(arguments, number):
            if before is not None:
                slot.fill(before)
        return self._called(arguments, number)

    def _called(self, arguments: ArgumentSet, number: int) -> float:
        self._call(arguments)
        return self._compare(arguments, number)

    def _call(self, arguments: ArgumentSet) -> None:
        self._function(*arguments.values)
        if not self._is_host:
            self._device.sync()

    def _new_set(self) -> ArgumentSet:
        scalars = [
            signature.scalar_value(arg.dtype) if arg.use is Use.SCALAR else None
            for arg in self._arguments
        ]
        return ArgumentSet(
            self._arguments, self._dtypes, scalars, self._device, is_host=self._is_host
        )

    def _prepare(self, arguments: ArgumentSet, number: int) -> None:
        """Inputs of one case in place, outputs poisoned."""
        for argument, slot, before in self._rows(arguments, number):
            slot.fill(self._poison(argument) if before is None else before)

    def _poison(self, argument: Argument) -> Array:
        return poison(argument, signature.host_dtype(argument.dtype))

    def _rows(self, arguments: ArgumentSet, number: int) -> list[tuple[Argument, Any, Any]]:
        rows = zip(self._arguments, arguments.slots, self._tensors[number].before, strict=True)
        return [row for row in rows if row[1] is not None]

    def _written(self) -> list[Argument]:
        return [argument for argument in self._arguments if argument.written]

    def _outputs(self, arguments: ArgumentSet) -> list[Array]:
        rows = zip(self._arguments, arguments.slots, strict=True)
        return [slot.contents() for argument, slot in rows if slot and argument.written]

    def _num_bytes(self) -> int:
        rows = zip(self._arguments, self._dtypes, strict=True)
        return sum(
            int(np.prod(argument.shape, dtype=np.int64)) * dtype.itemsize
            for argument, dtype in rows
            if dtype is not None
        )

    def _is_as_before(self, arguments: ArgumentSet) -> bool:
        """Whether timing left the bits of the first call, and nothing else was touched."""
        self._untouched(arguments, 0)
        rows = zip(self._written(), self._outputs(arguments), self._first, strict=True)
        return all(argument.filled or same_bits(got, want) for argument, got, want in rows)

    def _compare(self, arguments: ArgumentSet, number: int, *, updated: bool = True) -> float:
        """The worst error of one case; outputs that timing kept updating only where `updated`."""
        self._untouched(arguments, number)
        worst = 0.0
        case, tensors = self._cases[number], self._tensors[number]
        for at, (argument, slot) in enumerate(zip(self._arguments, arguments.slots, strict=True)):
            allowed = case.allowed[at]
            if slot is None or allowed is None or (argument.filled and not updated):
                continue
            output = slot.contents()
            mismatch = _nearest(output, at, tensors, allowed)
            if mismatch.error > 1:
                self._refuse(argument, output, tensors.after[at], allowed, mismatch, case)
            worst = max(worst, mismatch.error)
        return worst

    def _refuse(
        self,
        argument: Argument,
        output: Array,
        after: Array | None,
        allowed: Allowed,
        mismatch: Mismatch,
        case: Case,
    ) -> None:
        assert after is not None
        where = mismatch_map(output, after, self._poison(argument), allowed)
        inputs = f"{case.name}, allowed {allowed.rtol:.1e}"
        text = f"{mismatch.place} of {argument.name}; {where} ({inputs})"
        raise RefusedError("E_NUMERICS", text, min(mismatch.error, 1e30))

    def _untouched(self, arguments: ArgumentSet, number: int) -> None:
        """Refuse a call that changed an input, or anything around a tensor."""
        for argument, slot, before in self._rows(arguments, number):
            over = slot.overrun()
            if over:
                raise RefusedError("E_GUARD", f"wrote {over} of {argument}")
            if not argument.written and not same_bits(slot.contents(), before):
                raise RefusedError(
                    "E_INPUT_WRITTEN", f"the input {argument} was changed by the call"
                )


def _nearest(output: Array, at: int, tensors: Tensors, allowed: Allowed) -> Mismatch:
    """From the truth; or from the untuned function's output, where that is far from it."""
    after, other = tensors.after[at], tensors.other[at]
    assert after is not None
    mismatch = compare(output, after, allowed)
    if mismatch.error <= 1 or other is None:
        return mismatch
    alike = compare(output, other, allowed)
    return alike if alike.error <= 1 else mismatch


def num_threads() -> int:
    """Of this process."""
    return len(list(Path("/proc/self/task").iterdir()))
