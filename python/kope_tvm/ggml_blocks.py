# SPDX-License-Identifier: Apache-2.0
"""ggml's blocks of quantised weights: 32 along a row, a half-precision scale in front of them.

A scale that is no finite number counts as 0: quantisers write none, and any bytes are weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

if TYPE_CHECKING:
    from tvm.ir import Expr

WEIGHTS = 32
"""Of one block."""
SCALE_BYTES = 2
EXPONENT = 0x7C00
"""Of a half; all set, it is no finite number."""
HALF = WEIGHTS // 2
LARGEST_INT8 = 127.0
"""What ggml scales the largest number of a block to."""


@dataclass(frozen=True)
class BlockFormat:
    """One of ggml's types; weight `t` is `scale * (stored - offset)`."""

    name: str
    bits: int

    @property
    def num_bytes(self) -> int:
        """Of a block."""
        return SCALE_BYTES + WEIGHTS * self.bits // 8

    def position(self, half: Any, at: Any) -> Any:
        """The byte of weight `16 * half + at`: four bits have one byte for both halves."""
        return SCALE_BYTES + at if self.bits == 4 else SCALE_BYTES + half * HALF + at

    def value(self, byte: Expr, half: Any) -> Expr:
        """The int32 that a scale multiplies."""
        if self.bits == 8:
            return tirx.Cast("int32", tirx.Cast("int8", byte))
        return ((tirx.Cast("int32", byte) >> (half * 4)) & 15) - 8

    def decoded(self, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Weights of `[rows, blocks a row, num_bytes]`, as `[rows, weights a row]`."""
        halves = np.ascontiguousarray(blocks[..., :SCALE_BYTES]).view(np.float16)
        scales = np.where(np.isfinite(halves), halves, 0)
        stored = blocks[..., SCALE_BYTES:]
        if self.bits == 4:
            numbers = np.concatenate([stored & 15, stored >> 4], axis=-1).astype(np.float32) - 8
        else:
            numbers = stored.view(np.int8).astype(np.float32)
        return (numbers * scales.astype(np.float32)).reshape(len(blocks), -1)


Q4_0 = BlockFormat("q4_0", 4)
Q8_0 = BlockFormat("q8_0", 8)


def half_value(low: Expr, high: Expr) -> Expr:
    """The float32 of a half whose bytes these are; 0 where it is no finite number.

    By arithmetic, and not by its bits: so a function that uses it can be evaluated in float64.
    """
    bits = tirx.Cast("int32", low) | (tirx.Cast("int32", high) << 8)
    exponent = (bits >> 10) & 31
    fraction = (bits & 1023) + tirx.min(exponent, 1) * 1024
    power = (tirx.const(1, "int32") << tirx.max(exponent, 1)) & tirx.const((1 << 31) - 1, "int32")
    sign = 1 - (bits >> 15) * 2
    return tirx.Cast("float32", fraction * sign) * (
        tirx.Cast("float32", power) * tirx.const(2.0**-25, "float32")
    )
