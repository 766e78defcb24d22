# SPDX-License-Identifier: Apache-2.0
"""A proposal applied to its task: the only noun that holds live TVM objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kope_tvm.proposal import Proposal


@dataclass(frozen=True)
class Candidate:
    """A scheduled module, ready for the gates and the device."""

    proposal: Proposal
    state: str
    """Structural hash of the scheduled module, hexadecimal."""
    sch: Any
    """`tvm.s_tir.Schedule`; its trace replays on the untuned function, or on `base`."""
    base: Any = None
    """The IRModule of a Rewrite before it is scheduled: a workload of its own."""
