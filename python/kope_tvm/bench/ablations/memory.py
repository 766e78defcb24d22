# SPDX-License-Identifier: Apache-2.0
"""Nothing is recalled; what happens is recorded all the same."""

from __future__ import annotations

from kope_tvm.bench.ablation import Ablation
from kope_tvm.memory.experience import Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.repairs import Fix
from kope_tvm.memory.transitions import Transition
from kope_tvm.task import Task


class Forgetful(Memory):
    """A memory that answers every question with nothing."""

    def recall(self, task: Task, limit: int = 8) -> tuple[Recalled, ...]:
        """Nothing."""
        return ()

    def transitions(self, task: Task, limit: int = 8) -> tuple[Transition, ...]:
        """None."""
        return ()

    def lessons(self, task: Task) -> tuple[str, ...]:
        """None."""
        return ()

    def fixes(self, signature: str, op_class: str, limit: int = 3) -> tuple[Fix, ...]:
        """None."""
        return ()


ABLATION = Ablation("without memory", memory=Forgetful)
