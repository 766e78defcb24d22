# SPDX-License-Identifier: Apache-2.0
"""What a proposer is made with: its task, what is remembered, and a line to the model."""

from __future__ import annotations

from dataclasses import dataclass, field

from kope_tvm.chat.dialogue import Dialogue
from kope_tvm.memory.memory import Memory
from kope_tvm.stopwatch import Stopwatch
from kope_tvm.workbench import Workbench


@dataclass(frozen=True)
class Seat:
    """One proposer's place in one task."""

    bench: Workbench
    memory: Memory | None = None
    dialogue: Dialogue | None = None
    """None where there is no model to ask."""
    waiting: Stopwatch = field(default_factory=Stopwatch)
    """Runs while a round waits for the model and nothing is measured."""
    rewind: int = 0
    """Trials at the end that undo single decisions of the best."""
    simulated: bool = False
    """Whether no clock measures, but the simulated machine: its counters are told too."""
