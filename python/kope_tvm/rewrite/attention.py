# SPDX-License-Identifier: Apache-2.0
"""Finds attention in a function: a softmax of whole rows whose quotients weigh what is added up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kope_tvm.rewrite.elements import indices
from kope_tvm.rewrite.steps import Step, by_part


@dataclass(frozen=True)
class Attention:
    """The steps of a softmax and of the weighed sum, and the buffers that they read."""

    maxima: Step
    exps: Step
    sums: Step
    quotients: Step
    weighed_sum: Step
    quotient: ast.Subscript
    """As the weighed sum reads it."""
    weighed: ast.Subscript
    """What it is multiplied with."""

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.maxima, self.exps, self.sums, self.quotients, self.weighed_sum

    @property
    def logits(self) -> str:
        """The buffer that the softmax is of."""
        return ast.unparse(self.exps.loads[0].value)


def find_attention(steps: list[Step]) -> Attention | None:
    """The first; None where there is none, or where another step reads the quotients too."""
    known = {step.buffer: step for step in steps}
    for last in steps:
        for quotient, weighed in _factors(last):
            name = ast.unparse(quotient.value)
            softmax = _softmax(known, name)
            readers = [s for s in steps if name in {ast.unparse(load.value) for load in s.loads}]
            if softmax is not None and readers == [last]:
                return Attention(*softmax, last, quotient, weighed)
    return None


def _factors(step: Step) -> Iterator[tuple[ast.Subscript, ast.Subscript]]:
    """Those of what a running sum adds, in both orders."""
    total = step.value
    if not isinstance(total, ast.BinOp) or not isinstance(total.op, ast.Add):
        return
    term, is_running = total.right, ast.unparse(total.left) == ast.unparse(step.target)
    if is_running and isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        left, right = term.left, term.right
        if isinstance(left, ast.Subscript) and isinstance(right, ast.Subscript):
            yield left, right
            yield right, left


def _softmax(known: dict[str, Step], name: str) -> tuple[Step, Step, Step, Step] | None:
    """Maximum, exponentials, sum and the quotients that `name` keeps."""
    quotients = known.get(name)
    exps, sums = _read(known, quotients)
    _, maxima = _read(known, exps)
    if quotients is None or exps is None or sums is None or maxima is None:
        return None
    found = maxima, exps, sums, quotients
    return found if _is_of_rows(*found) else None


def _read(known: dict[str, Step], step: Step | None) -> tuple[Step | None, Step | None]:
    """The steps that made the two elements which another is made of."""
    loads = step.loads if step else []
    if len(loads) != 2:
        return None, None
    first, second = (known.get(ast.unparse(load.value)) for load in loads)
    return first, second


def _is_of_rows(maxima: Step, exps: Step, sums: Step, quotients: Step) -> bool:
    """Whether each says what its name says, of the same rows and their last dimension."""
    names = {maxima.buffer: "M", exps.buffer: "E", sums.buffer: "S", quotients.buffer: "Q"}
    names[ast.unparse(exps.loads[0].value)] = "L"
    num = len(indices(exps.target)) - 1
    row = ",".join(f"r{at}" for at in range(num))
    wanted = (
        (maxima, f"T.max(M[{row}],L[{row},k])"),
        (exps, f"T.exp(L[{row},k]-M[{row}])"),
        (sums, f"S[{row}]+E[{row},k]"),
        (quotients, f"E[{row},k]/S[{row}]"),
    )
    return num > 0 and all(by_part(step, names, num) == text for step, text in wanted)
