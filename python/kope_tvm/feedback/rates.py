# SPDX-License-Identifier: Apache-2.0
"""The least work of a function, and the rates at which a machine was seen to do work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from kope_tvm.task import Features

_CONTRACTIONS = frozenset({"matmul", "conv2d", "depthwise"})


@dataclass(frozen=True)
class Work:
    """The least that a function must do, however it is written."""

    flops: float
    dtype: str
    """That the operations are done in."""
    num_bytes: float


@dataclass(frozen=True)
class Rates:
    """The best seen of one core, or of all of them together."""

    flops_per_sec: Mapping[str, float] = field(default_factory=dict)
    """By dtype; of other dtypes as many as go into the same vectors of float32."""
    bandwidths: tuple[tuple[int, float], ...] = ()
    """(footprint, bytes a second) of functions that touch as many bytes or more; ascending."""

    def secs(self, work: Work) -> float:
        """What the work takes at these rates; 0 where they are unknown."""
        return max(self._flops_secs(work), self._bytes_secs(work))

    def raised(self, work: Work, factor: float) -> Rates:
        """As if everything that the work needs had been seen that much faster."""
        peak = self._peak(work.dtype) * factor
        return Rates(
            {**self.flops_per_sec, work.dtype: peak} if peak else self.flops_per_sec,
            tuple(
                (least, rate * factor if least <= work.num_bytes else rate)
                for least, rate in self.bandwidths
            ),
        )

    def or_faster(self, other: Rates) -> Rates:
        """What either of two sights of one machine allows."""
        dtypes = {*self.flops_per_sec, *other.flops_per_sec}
        footprints = sorted({least for least, _ in (*self.bandwidths, *other.bandwidths)})
        return Rates(
            {dtype: max(self._peak(dtype), other._peak(dtype)) for dtype in sorted(dtypes)},
            tuple(
                (least, max(self._bandwidth(least), other._bandwidth(least)))
                for least in footprints
            ),
        )

    def _flops_secs(self, work: Work) -> float:
        peak = self._peak(work.dtype)
        return work.flops / peak if peak else 0.0

    def _peak(self, dtype: str) -> float:
        known = self.flops_per_sec.get(dtype)
        return known or self.flops_per_sec.get("float32", 0.0) * 32 / _bits(dtype)

    def _bytes_secs(self, work: Work) -> float:
        rate = self._bandwidth(work.num_bytes)
        return work.num_bytes / rate if rate else 0.0

    def _bandwidth(self, num_bytes: float) -> float:
        return next((rate for least, rate in self.bandwidths[::-1] if least <= num_bytes), 0.0)


def least_work(features: Features) -> Work:
    """What no rewrite can save: the products of a contraction, and each byte once.

    Of other functions the operations are not counted, since common ones can be shared.
    """
    axes = (*features.spatial_extents, *features.reduce_extents)
    steps = prod(axes) if all(extent > 0 for extent in axes) else 0
    is_contraction = features.op_class in _CONTRACTIONS
    return Work(
        2.0 * steps if is_contraction else 0.0,
        _computed_in(features.dtypes),
        _touched_bytes(features, steps),
    )


def _touched_bytes(features: Features, steps: int) -> float:
    """A slice or a gather touches less of a parameter than all: no more than a step each.

    Indices of a gather are few, whatever the steps: only what is of the output's type is counted.
    """
    widths = [_bits(dtype) / 8 for dtype in features.dtypes]
    if steps * sum(widths) >= features.bytes_moved:
        return features.bytes_moved
    return steps * features.dtypes.count(features.dtypes[-1]) * widths[-1] if widths else 0.0


def _computed_in(dtypes: tuple[str, ...]) -> str:
    """A product has two inputs and is no narrower than the wider: the second narrowest at least."""
    inputs = sorted(dtypes[:-1] or dtypes, key=_bits)
    return inputs[min(1, len(inputs) - 1)] if inputs else "float32"


def _bits(dtype: str) -> int:
    """The width of a scalar dtype; of what is none, a pointer or a bool, of a byte."""
    digits = "".join(letter for letter in dtype.partition("_")[0] if letter.isdigit())
    return int(digits) if digits else 8
