# SPDX-License-Identifier: Apache-2.0
"""The name, shape and dtype of one input or output."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class TensorSpec:
    """One tensor at a model's edge; its shape is static, -1 where an output's is not."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def num_elements(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{self.name} {list(self.shape)} {self.dtype}"
