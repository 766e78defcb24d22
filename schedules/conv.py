# SPDX-License-Identifier: Apache-2.0
"""What makes a block a convolution, and its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from kope_tvm.schedules.analysis import Access, Block, Index
from kope_tvm.schedules.operands import is_multiply_add


@dataclass(frozen=True)
class Conv:
    """The sizes of `out[n,oc,*x] += data[n,ic,*(x*stride+k*dilation)] * weight[oc,ic,*k]`."""

    batch: int
    out_channels: int
    image: tuple[int, ...]
    """Of the output: height and width, or width alone."""
    in_channels: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    data: int
    """Position of the data among the anchor's loads."""
    groups: int = 1
    """Of output channels, each of which reads `in_channels` of its own."""
    row: int = -1
    """The image's axis along which a row lies in memory: the last but for those of extent one."""

    @property
    def num_axes(self) -> int:
        """Of the image."""
        return len(self.image)

    @property
    def width(self) -> int:
        """Of the output's rows."""
        return self.image[self.row]

    @property
    def row_stride(self) -> int:
        """Between the windows of neighbours in a row."""
        return self.stride[self.row]

    @property
    def num_rows(self) -> int:
        """Of the outputs of all images, of one channel."""
        return self.batch * self.num_pixels // self.width

    @property
    def num_pixels(self) -> int:
        """Of one output image."""
        return prod(self.image)

    @property
    def is_pointwise(self) -> bool:
        return {*self.kernel, *self.stride, self.groups} == {1}

    @property
    def is_pixel(self) -> bool:
        """Whether it is a matrix by one vector, as in squeeze-and-excite."""
        return self.is_pointwise and self.batch * self.num_pixels == 1


def conv_of(anchor: Block) -> Conv | None:
    """The convolution that `anchor` is; None where it is none or a depthwise one."""
    kinds = [it.kind for it in anchor.iters]
    if not is_multiply_add(anchor) or kinds not in (list("SSSSRRR"), list("SSSRR")):
        return None
    num_axes = len(kinds) // 2 - 1
    data = 0 if 2 in anchor.loads[0].iters else 1
    image, weight = anchor.loads[data], anchor.loads[1 - data]
    groups = _groups(anchor, image, num_axes + 2)
    of_weight = (1, *range(2 + num_axes, len(kinds)))
    if not (groups and _is_windows(image, num_axes)) or not (
        _is_plain(weight, of_weight) and _is_plain(anchor.stores[0], range(2 + num_axes))
    ):
        return None
    n, oc, *sizes = (it.extent for it in anchor.iters)
    found = Conv(
        batch=n,
        out_channels=oc,
        image=tuple(sizes[:num_axes]),
        in_channels=sizes[num_axes],
        kernel=tuple(sizes[num_axes + 1 :]),
        stride=tuple(image.indices[2 + axis].coefs[2 + axis] for axis in range(num_axes)),
        data=data,
        groups=groups,
    )
    return replace(found, row=_row_axis(found, image))


def _row_axis(conv: Conv, image: Access) -> int:
    """The last axis that is more than one wide, in the data too; the last where none is."""
    for axis in reversed(range(conv.num_axes)):
        if conv.image[axis] > 1 or image.shape[2 + axis] > 1:
            return axis
    return conv.num_axes - 1


def _groups(anchor: Block, image: Access, channel: int) -> int:
    """How many groups of channels there are; 0 where the data's are read in another way."""
    if len(image.indices) != channel:
        return 0
    channels, width = image.indices[1], anchor.iters[channel].extent
    if channels.is_iter(channel):
        return 1
    return image.shape[1] // width if width > 1 and channels.iters == (1, channel) else 0


def _is_windows(image: Access, num_axes: int) -> bool:
    """Whether the images are the first iterator's, and their axes windows."""
    kernel = num_axes + 3
    windows = (
        _is_sum(index, {2 + axis: index.coefs[2 + axis], kernel + axis: index.coefs[kernel + axis]})
        for axis, index in enumerate(image.indices[2:])
    )
    return _is_sum(image.indices[0], {0: 1}) and all(windows)


def _is_plain(access: Access, iters: Sequence[int]) -> bool:
    return len(access.indices) == len(iters) and all(
        index.is_iter(i) for index, i in zip(access.indices, iters, strict=True)
    )


def _is_sum(index: Index, coefs: dict[int, int]) -> bool:
    found = {i: index.coefs[i] for i in index.iters}
    return index.linear and not index.const and found == {i: c for i, c in coefs.items() if c}
