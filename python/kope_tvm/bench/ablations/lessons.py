# SPDX-License-Identifier: Apache-2.0
"""Single experiences are recalled, what was distilled from them is not."""

from __future__ import annotations

from kope_tvm.bench.ablation import Ablation
from kope_tvm.memory.memory import Memory
from kope_tvm.task import Task


class Unschooled(Memory):
    """A memory without lessons."""

    def lessons(self, task: Task) -> tuple[str, ...]:
        """None."""
        return ()


ABLATION = Ablation("without lessons", needs_model=True, memory=Unschooled)
