# SPDX-License-Identifier: Apache-2.0
"""One function to make fast."""

from __future__ import annotations

from dataclasses import dataclass, field

from kope_tvm.target import TargetSpec


@dataclass(frozen=True)
class Features:
    """What recall compares of two functions; counts are of the untuned function."""

    op_class: str = "other"
    """`matmul`, `conv2d`, `depthwise`, `softmax`, `norm`, `reduce`, `elementwise`, `pool`,
    `other`.
    """
    spatial_extents: tuple[int, ...] = ()
    """Of the anchor block, in loop order; -1 where symbolic."""
    reduce_extents: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    """Of the parameters, in order."""
    flops: float = 0.0
    bytes_moved: float = 0.0
    """Each parameter once."""
    num_blocks: int = 0
    strides: tuple[int, ...] = ()
    """Elements between what neighbours along the anchor block's innermost axis read, load by load;
    -1 where that is not constant.
    """

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


@dataclass(frozen=True)
class Task:
    """One PrimFunc on one machine."""

    name: str
    key: str
    """Structural hash of the module, hexadecimal: the same function has the same key in every
    process.
    """
    mod_json: str = field(repr=False)
    """`tvm.ir.save_json` of the IRModule whose function is `main`."""
    target: TargetSpec
    features: Features = field(default_factory=Features)
    weight: float = 1.0
    """How often the model calls it."""
