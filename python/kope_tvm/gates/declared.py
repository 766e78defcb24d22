# SPDX-License-Identifier: Apache-2.0
"""Refuses blocks that use buffers without declaring it: what TVM concludes of them is wrong."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import undeclared_uses
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, scheduled_func


class Declared:
    """`unsafe_hide_buffer_access` makes such blocks; a reduction may then run in parallel."""

    cost = 2

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_MALFORMED, naming the first block and buffer."""
        found = undeclared_uses(scheduled_func(candidate))
        if found:
            known = of_untuned(undeclared_uses, task)
            found = tuple(one for one in found if one not in known)
        if not found:
            return accept("declared")
        first = found[0]
        reason = f"{len(found)} uses not declared, first of {first.buffer} in block {first.block}"
        return refuse("declared", "E_MALFORMED", reason, suspicious=True)
