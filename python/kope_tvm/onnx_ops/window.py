# SPDX-License-Identifier: Apache-2.0
"""The window of a convolution or pooling node: kernel, strides, dilations and explicit padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kope_tvm.errors import ModelError


@dataclass(frozen=True)
class Window:
    """One entry a spatial axis; padding is all befores, then all afters."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @staticmethod
    def of(attr: Any, extents: Sequence[int], kernel: Sequence[int]) -> Window:
        """Read a node's attributes; `extents` are the data's spatial ones."""
        rank = len(kernel)
        if not 1 <= rank <= 3:
            raise ModelError(f"{rank} spatial axes; expected 1, 2 or 3")
        strides = tuple(attr.get("strides", (1,) * rank))
        dilations = tuple(attr.get("dilations", (1,) * rank))
        mode = attr.get("auto_pad", b"NOTSET").decode()
        if mode == "NOTSET":
            pads = tuple(attr.get("pads", (0,) * (2 * rank)))
        elif mode == "VALID":
            pads = (0,) * (2 * rank)
        else:
            reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            pads = _same(extents, reach, strides, lower=mode == "SAME_LOWER")
        return Window(tuple(kernel), strides, dilations, pads)


def _same(
    extents: Sequence[int], reach: Sequence[int], strides: Sequence[int], *, lower: bool
) -> tuple[int, ...]:
    """Padding that makes `ceil(extent / stride)` windows fit; an odd one goes to one end."""
    befores, afters = [], []
    for extent, covered, stride in zip(extents, reach, strides, strict=True):
        total = max((-(-extent // stride) - 1) * stride + covered - extent, 0)
        less, more = total // 2, total - total // 2
        befores.append(more if lower else less)
        afters.append(less if lower else more)
    return (*befores, *afters)
