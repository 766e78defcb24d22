# SPDX-License-Identifier: Apache-2.0
"""Refuses calls that are neither pure arithmetic, nor the untuned function's, nor the target's."""

from __future__ import annotations

from kope_tvm import static_checks
from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.rewrite.constructs import PURE_OPS
from kope_tvm.task import Task
from kope_tvm.untuned import of_intrinsics, of_untuned, scheduled_func

_PURE = PURE_OPS | {"tirx.reinterpret"}
_OF_ADDRESSES = frozenset(
    f"tirx.{name}"
    for name in ("address_of", "buffer_data", "isnullptr", "tvm_access_ptr", "type_annotation")
)
"""The gate `addresses` refuses these, and says so more to the point."""


class Calls:
    """What is tensorized may call what the intrinsic's own implementation calls."""

    cost = 2

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_CALL, naming the first such operator."""
        found = static_checks.calls(scheduled_func(candidate)) - _PURE - _OF_ADDRESSES
        if found:
            found -= of_untuned(static_checks.calls, task)
        if found:
            found -= of_intrinsics(static_checks.calls, candidate)
        if not found:
            return accept("calls")
        reason = f"{len(found)} foreign operators in {task.name}, first {min(found)}"
        return refuse("calls", "E_CALL", reason, suspicious=True)
