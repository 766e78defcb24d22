# SPDX-License-Identifier: Apache-2.0
"""Refuses a candidate that writes to what the untuned function only reads."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import written_params
from kope_tvm.task import Task
from kope_tvm.untuned import outputs, scheduled_func


class Inputs:
    """An overwritten input makes the next call cheap, and wrong."""

    cost = 4

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_INPUT_WRITTEN, naming the first such parameter."""
        func = scheduled_func(candidate)
        written = [place for place in written_params(func) if place not in outputs(task)]
        if not written:
            return accept("inputs")
        place = written[0]
        reason = (
            f"{len(written)} inputs written, first parameter {place}, {func.params[place].name}"
        )
        return refuse("inputs", "E_INPUT_WRITTEN", reason, suspicious=True)
