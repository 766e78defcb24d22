# SPDX-License-Identifier: Apache-2.0
"""Tiles that leave a rest, on machines whose vectors have no masks."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.mlir.nest import Loop
from kope_tvm.mlir.script_text import Handle, ScriptText
from kope_tvm.mlir.tuned_op import Sizes, TunedOp

PLANES = {
    "linalg.conv_2d_nhwc_hwcf": (1, 4),
    "linalg.depthwise_conv_2d_nhwc_hwc": (1, 4),
}
"""Dimensions that must be 1 before a 2-D convolution is a 1-D one: height and kernel height."""


@dataclass(frozen=True)
class Rests:
    """Masks would cost several times what a tile gains there; windows are padded anywhere."""

    text: ScriptText
    left_out: list[str]
    """Where it is told what became smaller."""
    has_masks: bool

    def parts(self, loop: Loop, root: TunedOp, handle: Handle) -> list[tuple[Handle, Sizes]]:
        """The operation, in two where its tiles leave a rest: handles and extents."""
        extents = tuple(root.source.extents)
        path = loop.path(root.stage) if self._matter(root) else []
        levels = [root.sizes(path[depth + 1 :]) for depth in range(len(path))]
        for dim, extent in enumerate(extents):
            odd = [
                sizes[dim] for sizes in levels if 0 < sizes[dim] < extent and extent % sizes[dim]
            ]
            if not odd or dim in root.source.reduced:
                continue
            whole = extent - extent % odd[0]
            parts = zip(self.text.split(handle, dim, whole), (whole, extent - whole), strict=True)
            return [
                (part, tuple(size if at == dim else each for at, each in enumerate(extents)))
                for part, size in parts
            ]
        return [(handle, extents)]

    def without(self, root: TunedOp, old_sizes: Sizes, sizes: Sizes) -> Sizes:
        """The same or a little smaller, so that all tiles are whole."""
        if not self._matter(root):
            return sizes
        pairs = list(zip(sizes, old_sizes, strict=True))
        whole = tuple(_largest_divisor(old, min(new, old)) for new, old in pairs)
        for size, (new, old) in zip(whole, pairs, strict=True):
            if size < min(new, old):
                self.left_out.append(f"{root.name}: a tile of {new} in {old}, {size} here")
        return whole

    def _matter(self, root: TunedOp) -> bool:
        return not self.has_masks and root.source.op not in PLANES


def _largest_divisor(extent: int, most: int) -> int:
    return next(size for size in range(max(most, 1), 0, -1) if extent % size == 0)
