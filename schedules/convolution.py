# SPDX-License-Identifier: Apache-2.0
"""NCHW convolution: packed weights over output channels, or vectors over the image.

A 1x1 convolution of stride 1 is a matrix product over the flattened image; any other runs
as a direct convolution, output columns by output channels in the register tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.analysis import Analysis, Block, Index, analyse
from kope_tvm.schedules.contraction import (
    Roles,
    lanes_of,
    tile_anchor,
    tile_space,
    vector_lanes,
)
from kope_tvm.schedules.dot import tile_dot
from kope_tvm.schedules.operands import (
    fuse_epilogue,
    is_copy,
    is_multiply_add,
    pack_panels,
    settle_producers,
    stage,
    stage_pack,
    stage_pad,
)
from kope_tvm.target import Facts, TargetSpec


@dataclass(frozen=True)
class Conv:
    """The sizes of `out[n,oc,y,x] += data[n,ic,y*s+ky,x*s+kx] * weight[oc,ic,ky,kx]`."""

    batch: int
    out_channels: int
    height: int
    width: int
    in_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    data: int
    """Position of the data among the anchor's loads."""

    @property
    def is_pointwise(self) -> bool:
        return self.kernel == (1, 1) and self.stride == (1, 1)

    @property
    def is_pixel(self) -> bool:
        """Whether it is a matrix by one vector, as in squeeze-and-excite."""
        return self.is_pointwise and self.batch * self.height * self.width == 1


@dataclass(frozen=True)
class _Layout:
    """One way to run the convolution."""

    lanes: int
    over_channels: bool
    """Vectors over output channels, weights packed; else over the image."""


def conv_of(anchor: Block) -> Conv | None:
    """The convolution that `anchor` is; None where it is none, grouped or dilated."""
    if not is_multiply_add(anchor) or [it.kind for it in anchor.iters] != list("SSSSRRR"):
        return None
    data = 0 if 2 in anchor.loads[0].iters else 1
    image, weight = anchor.loads[data], anchor.loads[1 - data]
    if len(image.indices) != 4 or len(weight.indices) != 4 or not image.is_linear:
        return None
    stride = (image.indices[2].coefs[2], image.indices[3].coefs[3])
    wanted: tuple[dict[int, int], ...] = (
        {0: 1},
        {4: 1},
        {2: stride[0], 5: 1},
        {3: stride[1], 6: 1},
    )
    extents = [it.extent for it in anchor.iters]
    if not all(map(_is_sum, image.indices, wanted)):
        return None
    plain = all(weight.indices[p].is_iter(i) for p, i in enumerate((1, 4, 5, 6)))
    if not plain or not all(index.is_iter(p) for p, index in enumerate(anchor.stores[0].indices)):
        return None
    n, oc, y, x, ic, ky, kx = extents
    return Conv(n, oc, y, x, ic, (ky, kx), stride, data)


def _is_sum(index: Index, coefs: dict[int, int]) -> bool:
    found = {i: index.coefs[i] for i in index.iters}
    return not index.const and found == {i: c for i, c in coefs.items() if c}


def convolutions(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Design spaces of an NCHW convolution, the best guess first; empty where it is none."""
    info = analyse(func)
    anchor = info.anchor if info else None
    conv = conv_of(anchor) if anchor else None
    if info is None or anchor is None or conv is None:
        return []
    lanes = lanes_of(anchor.stores[0].dtype, target.facts)
    built = [_build(func, info, anchor, conv, x, target.facts) for x in _layouts(conv, lanes)]
    if lanes and conv.is_pixel:
        built.insert(0, _build_dot(func, info, anchor, conv, lanes, target.facts))
    return [sch for sch in built if sch is not None]


def _layouts(conv: Conv, lanes: int) -> list[_Layout]:
    if not lanes:
        return []
    channel = _Layout(vector_lanes(conv.out_channels, lanes), over_channels=True)
    image_size = conv.height * conv.width if conv.is_pointwise else conv.width
    image = _Layout(vector_lanes(image_size, lanes), over_channels=False)
    if conv.stride[1] != 1:
        return [channel]
    if conv.is_pointwise and image.lanes >= channel.lanes:
        return [image, channel]
    return [image, channel] if image.lanes > channel.lanes else [channel, image]


def _build(
    func: tirx.PrimFunc, info: Analysis, anchor: Block, conv: Conv, layout: _Layout, facts: Facts
) -> Schedule | None:
    sch = Schedule(IRModule({"main": func}))
    epilogue = fuse_epilogue(sch, info, anchor, layout.lanes, facts)
    if epilogue is None:
        return None
    block = sch.get_sblock(anchor.name)
    weight, image = anchor.loads[1 - conv.data], anchor.loads[conv.data]
    pad = info.writer(image.buffer)
    kept = {image.buffer} if pad is not None and not is_copy(pad) else set()
    packed = Roles((0, 2), 3, 1, (4, 5, 6), conv.data, 1 - conv.data)
    if layout.over_channels:
        pack = sch.cache_read(block, 1 - conv.data, "global")
        pack_panels(sch, weight, pack, packed, layout.lanes)
    else:
        kept.add(weight.buffer)
    stay = settle_producers(sch, info, anchor, kept)
    if stay is None:
        return None
    for other in stay:
        own = sch.get_sblock(other.name)
        stage_pad(sch, own, facts) if other is pad else stage(sch, own, layout.lanes, facts)
    if layout.over_channels:
        stage_pack(sch, weight, pack, packed, layout.lanes, facts)
    _tile(sch, block, epilogue, conv, layout, facts)
    return sch


def _build_dot(
    func: tirx.PrimFunc, info: Analysis, anchor: Block, conv: Conv, lanes: int, facts: Facts
) -> Schedule | None:
    sch = Schedule(IRModule({"main": func}))
    epilogue = fuse_epilogue(sch, info, anchor, lanes, facts)
    if epilogue is None or settle_producers(sch, info, anchor, set()) is None:
        return None
    roles = Roles((0, 2), 3, 1, (5, 6, 4), conv.data, 1 - conv.data)
    tile_dot(sch, sch.get_sblock(anchor.name), epilogue, roles, lanes, facts)
    return sch


def _tile(
    sch: Schedule, block: SBlockRV, epilogue: SBlockRV, conv: Conv, layout: _Layout, facts: Facts
) -> None:
    pixels = conv.width
    outer: tuple[int, ...] = (0, 2)
    reduce: tuple[int, ...] = (4, 5, 6)
    if conv.is_pointwise:
        _flatten(sch, block, epilogue, conv.width)
        pixels, reduce, outer = conv.height * conv.width, (3,), (0,)
    elif conv.kernel == (1, 1):
        reduce = (5, 6, 4)
    pixel_axis = 2 if conv.is_pointwise else 3
    if layout.over_channels:
        _move_channels_last(sch, block, conv.is_pointwise)
        roles = Roles(outer, pixel_axis, 1, reduce, conv.data, 1 - conv.data)
        rows, cols = pixels, conv.out_channels
    else:
        roles = Roles(outer, 1, pixel_axis, reduce, 1 - conv.data, conv.data)
        rows, cols = conv.out_channels, pixels
    depth = conv.in_channels if conv.kernel == (1, 1) else conv.kernel[1]
    tile = tile_space(rows, cols // layout.lanes, depth, layout.lanes, facts)
    tile_anchor(sch, block, epilogue, roles, tile, facts, col_axis=roles.col)


def _flatten(sch: Schedule, block: SBlockRV, epilogue: SBlockRV, width: int) -> None:
    """Makes one iterator of the image's rows and columns, in the anchor and in its epilogue."""
    sch.transform_layout(block, ("write", 0), lambda n, c, y, x: [n, c, y * width + x])
    sch.transform_block_layout(
        block, lambda n, c, y, x, ic, ky, kx: [n, c, y * width + x, ic + ky + kx]
    )
    sch.transform_block_layout(epilogue, lambda n, c, y, x: [n, c, y * width + x])


def _move_channels_last(sch: Schedule, block: SBlockRV, is_flat: bool) -> None:
    """Lets the accumulators of one pixel lie next to each other."""
    if is_flat:
        sch.transform_layout(block, ("write", 0), lambda n, c, p: [n, p, c])
    else:
        sch.transform_layout(block, ("write", 0), lambda n, c, y, x: [n, y, x, c])
