# SPDX-License-Identifier: Apache-2.0
"""Refuses statements whose course depends on input values, where the untuned function has none.

`T.Select`, `T.if_then_else`, `T.min` and `T.max` choose between values and stay allowed: what is
refused is to leave out work for some inputs, such as the ones a checker likes to send.
"""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import InputBranch, input_branches
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, scheduled_func


class Branches:
    """An `if`, a `while`, a loop's bounds and a block's predicate are such statements."""

    cost = 3

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_BRANCH, naming the first such parameter."""
        func = scheduled_func(candidate)
        found = input_branches(func)
        if found:
            known = {one.param for one in of_untuned(input_branches, task)}
            found = frozenset(one for one in found if one.param not in known)
        if not found:
            return accept("branches")
        first = min(found, key=_order)
        statement = first.statement.rpartition(".")[2]
        reason = (
            f"{len(found)} branches on input values, first {statement} on "
            f"parameter {first.param}, {func.params[first.param].name}"
        )
        return refuse("branches", "E_BRANCH", reason, suspicious=True)


def _order(branch: InputBranch) -> tuple[int, str]:
    return branch.param, branch.statement
