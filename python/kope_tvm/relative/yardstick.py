# SPDX-License-Identifier: Apache-2.0
"""What the decisions of one task are measured by on one machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kope_tvm.target import Facts

_WORD_BITS = 32
"""Of elements whose type does not say."""


@dataclass(frozen=True)
class Yardstick:
    """Sizes of a machine in terms of a task; 0 where unknown."""

    lanes: int
    """Elements of the task's output in one vector register."""
    cores: int = 0
    l1_bytes: int = 0
    l2_bytes: int = 0

    @classmethod
    def of(cls, facts: Facts, dtypes: Sequence[str]) -> Yardstick:
        """`dtypes` are those of the function's parameters, the output last."""
        lanes = facts.vlen_bits // bits_of(dtypes[-1] if dtypes else "")
        return cls(lanes, facts.num_cores, facts.l1_bytes, facts.l2_bytes)


def bits_of(dtype: str) -> int:
    """Of one element."""
    digits = re.search(r"\d+", dtype)
    return max(int(digits[0]), 1) if digits else _WORD_BITS
