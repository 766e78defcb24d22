# SPDX-License-Identifier: Apache-2.0
"""Refuses a candidate that certainly leaves part of an output as it was."""

from __future__ import annotations

from typing import Any

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import Coverage as Found
from kope_tvm.static_checks import Region, write_coverage
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, outputs, scheduled_func


class Coverage:
    """What indices and conditions leave open is accepted: the device poisons the outputs."""

    cost = 5

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_COVERAGE, naming the first region never written."""
        func = scheduled_func(candidate)
        for found in write_coverage(func, outputs(task)):
            if found.written == "no" and found.param in _whole(task):
                param = func.params[found.param]
                reason = f"{param.name} {_place(found.missing, param.shape)} never written"
                return refuse("coverage", "E_COVERAGE", reason)
        return accept("coverage")


def _whole(task: Task) -> tuple[int, ...]:
    """Outputs that the untuned function is not known to leave parts of."""
    return tuple(found.param for found in of_untuned(_coverage, task) if found.written != "no")


def _coverage(func: Any) -> tuple[Found, ...]:
    return write_coverage(func, range(len(func.params)))


def _place(missing: Region, shape: Any) -> str:
    """`rows 64..80 of axis 0`, or of every axis that is not missing in whole."""
    parts = [
        f"rows {begin}..{end} of axis {axis}"
        for axis, (begin, end) in enumerate(missing)
        if (begin, end) != (0, int(shape[axis]))
    ]
    return ", ".join(parts) or f"all {len(missing)} axes"
