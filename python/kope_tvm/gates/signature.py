# SPDX-License-Identifier: Apache-2.0
"""Refuses a module whose parameters differ from the task's in number, order, shape or dtype."""

from __future__ import annotations

from typing import Any

import tvm

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, scheduled_func


class Signature:
    """The caller's contract is the untuned function's."""

    cost = 0

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_SIGNATURE, naming the first parameter that differs."""
        expected, given = of_untuned(_signature, task), _signature(scheduled_func(candidate))
        if expected == given:
            return accept("signature")
        pairs = enumerate(zip(expected, given, strict=False))
        place = next(
            (i for i, (one, other) in pairs if one != other), min(len(expected), len(given))
        )
        reason = f"parameter {place} of {task.name}: given {given[place : place + 1]}"
        return refuse(
            "signature", "E_SIGNATURE", f"{reason}, expected {expected[place : place + 1]}"
        )


def _signature(func: Any) -> tuple[str, ...]:
    return tuple(_shown(param) for param in func.params)


def _shown(param: Any) -> str:
    if isinstance(param, tvm.tirx.Buffer):
        return f"{param.dtype}{[str(getattr(extent, 'value', extent)) for extent in param.shape]}"
    return str(param.dtype)
