# SPDX-License-Identifier: Apache-2.0
"""Whether a task's check tells a right result from one that did no work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kope_tvm.measure.compare import compare
from kope_tvm.measure.image import Tensors
from kope_tvm.measure.job import Argument, Case
from kope_tvm.measure.policy import Array


class Telling:
    """Whether results that did no work fail in at least one case."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self._arguments = arguments
        self._passing = {
            (number, what): True
            for number, argument in enumerate(arguments)
            if argument.written and all(argument.shape)
            for what in ("all zeros", "a copied input", "the case before's output")
        }

    def see(self, case: Case, tensors: Tensors, last: Tensors | None) -> None:
        """Note which of them this case tells from a right result."""
        for (number, what), passes in self._passing.items():
            after, allowed = tensors.after[number], case.allowed[number]
            if not passes or after is None or allowed is None:
                continue
            idle = self._idle(number, what, tensors, last)
            wrong = [compare(each, after, allowed).error > 1 for each in idle]
            self._passing[number, what] = not all(wrong) if wrong else what != "all zeros"

    def _idle(self, number: int, what: str, tensors: Tensors, last: Tensors | None) -> list[Array]:
        after = tensors.after[number]
        assert after is not None
        if what == "all zeros":
            return [np.zeros_like(after)]
        if what == "a copied input":
            alike = (array for array in tensors.before if array is not None)
            return [
                each for each in alike if (each.shape, each.dtype) == (after.shape, after.dtype)
            ]
        stale = last.after[number] if last else None
        return [] if stale is None else [stale]

    def notice(self) -> str:
        """Which of them would pass."""
        has_inputs = any(argument.filled for argument in self._arguments)
        found = [
            f"{what} would pass for {self._arguments[number].name}"
            for (number, what), passes in self._passing.items()
            if passes and (has_inputs or what == "all zeros") and self._can_be(number, what)
        ]
        return ", ".join(found)

    def _can_be(self, number: int, what: str) -> bool:
        if what != "a copied input":
            return True
        output = self._arguments[number]
        return any(
            (each.shape, each.dtype) == (output.shape, output.dtype)
            for each in self._arguments
            if each.filled
        )
