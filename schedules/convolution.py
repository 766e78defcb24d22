# SPDX-License-Identifier: Apache-2.0
"""NCHW and NCW convolution: packed weights over output channels, or vectors over the image.

A 1x1 convolution of stride 1 is a matrix product over the flattened image; any other, dilated,
grouped or neither, runs as a direct convolution, output columns by output channels in the register
tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import IndexMap

from kope_tvm.schedules.analysis import Analysis, Block, analyse
from kope_tvm.schedules.contraction import (
    Roles,
    divisors,
    lanes_of,
    tile_anchor,
    tile_space,
    tile_with_rest,
    vector_lanes,
)
from kope_tvm.schedules.conv import Conv, conv_of
from kope_tvm.schedules.dot import tile_dot
from kope_tvm.schedules.operands import (
    fuse_epilogue,
    is_copy,
    pack_panels,
    settle_producers,
    stage,
    stage_pack,
    stage_pad,
)
from kope_tvm.schedules.vectors import is_x86
from kope_tvm.target import Facts, TargetSpec

_FEW_ROWS = 4
_MOST_REGISTERS = 4
"""Of one vector: as many rows of sums and their factors still fit the register file."""


@dataclass(frozen=True)
class _Layout:
    """One way to run the convolution."""

    lanes: int
    over_channels: bool
    """Vectors over output channels, weights packed; else over the image."""
    registers: int = 1
    """That one such vector takes."""


def convolutions(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Design spaces of an NCHW convolution, the best guess first; empty where it is none."""
    info = analyse(func)
    anchor = info.anchor if info else None
    conv = conv_of(anchor) if anchor else None
    if info is None or anchor is None or conv is None:
        return []
    lanes = lanes_of(anchor.stores[0].dtype, target.facts)
    if not lanes:
        return []
    layouts = [*_layouts(conv, lanes), *(_whole_rows(conv, lanes) if is_x86(target) else [])]
    built = [_build(func, info, anchor, conv, layout, target.facts) for layout in layouts]
    if conv.is_pixel:
        built.insert(0, _build_dot(func, info, anchor, conv, lanes, target.facts))
    return [sch for sch in built if sch is not None]


def _layouts(conv: Conv, lanes: int) -> list[_Layout]:
    channel = _Layout(vector_lanes(conv.out_channels, lanes), over_channels=True)
    image_size = conv.num_pixels if conv.is_pointwise else conv.width
    image = _Layout(vector_lanes(image_size, lanes), over_channels=False)
    if conv.groups > 1:
        return [image] if conv.row_stride == 1 else []
    if conv.row_stride != 1:
        return [channel]
    if conv.is_pointwise and image.lanes >= channel.lanes:
        return [image, channel]
    return [image, channel] if image.lanes > channel.lanes else [channel, image]


def _whole_rows(conv: Conv, lanes: int) -> list[_Layout]:
    """A row of the image as one vector, of which the compiler makes registers and a rest.

    Where a row is no whole number of registers, the other layouts leave lanes or registers empty.
    """
    registers = -(-conv.width // lanes)
    if conv.is_pointwise or conv.row_stride != 1 or conv.width % lanes == 0:
        return []
    fits = 1 < registers <= _MOST_REGISTERS
    return [_Layout(conv.width, over_channels=False, registers=registers)] if fits else []


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
    packed = _over_channels(conv)
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
    roles = replace(_over_channels(conv), reduce=_channel_last(conv))
    tile_dot(sch, sch.get_sblock(anchor.name), epilogue, roles, lanes, facts)
    return sch


def _over_channels(conv: Conv) -> Roles:
    """Each iterator's part where vectors run over output channels."""
    *outer, row = _row_last(conv)
    channel = 2 + conv.num_axes
    kernel = [channel + 1 + axis for axis in (*outer, row)]
    others = [2 + axis for axis in outer]
    return Roles((0, *others), 2 + row, 1, (channel, *kernel), conv.data, 1 - conv.data)


def _row_last(conv: Conv) -> list[int]:
    """The image's axes, that along its rows at the end."""
    return [*(axis for axis in range(conv.num_axes) if axis != conv.row), conv.row]


def _channel_last(conv: Conv) -> tuple[int, ...]:
    """The reductions with that over channels innermost."""
    channel, *kernel = _over_channels(conv).reduce
    return (*kernel, channel)


def _tile(
    sch: Schedule, block: SBlockRV, epilogue: SBlockRV, conv: Conv, layout: _Layout, facts: Facts
) -> None:
    roles, pixels = _over_channels(conv), conv.width
    is_flat = conv.is_pointwise and not (layout.over_channels and _has_no_rows(conv))
    if is_flat:
        _flatten(sch, block, epilogue, conv)
        roles, pixels = replace(roles, outer=(0,), row=2, reduce=(3,)), conv.num_pixels
    elif set(conv.kernel) == {1}:
        roles = replace(roles, reduce=_channel_last(conv))
    rows, cols = pixels, conv.out_channels
    if layout.over_channels:
        _move_channels_last(sch, block)
    else:
        roles = replace(roles, row=1, col=roles.row, lhs=roles.rhs, rhs=roles.lhs)
        rows, cols = cols, rows
    depth = conv.in_channels if set(conv.kernel) == {1} else conv.kernel[conv.row]
    col_axis = roles.col
    if conv.groups > 1:
        _split_groups(sch, block, conv)
        roles, rows = _behind_groups(roles), rows // conv.groups
    share = replace(facts, vector_registers=facts.vector_registers // layout.registers)
    tile = tile_space(rows, cols // layout.lanes, depth, layout.lanes, share)
    if not is_flat and conv.num_rows >= facts.num_cores:
        tile = tile_with_rest(rows, tile, share)
    tile_anchor(sch, block, epilogue, roles, tile, facts, col_axis=col_axis)


def _has_no_rows(conv: Conv) -> bool:
    """Whether no tile of more than a few pixels divides the image: its rows leave a rest, then."""
    return divisors(conv.num_pixels, 4 * _FEW_ROWS)[-1] < _FEW_ROWS


def _split_groups(sch: Schedule, block: SBlockRV, conv: Conv) -> None:
    """Makes an iterator of the group that an output channel is in, before the channel's own."""
    width = conv.out_channels // conv.groups

    def split(n: tirx.Var, c: tirx.Var, *rest: tirx.Var) -> list[tirx.PrimExpr]:
        return [n, c // width, c % width, *rest]

    _relabel(sch, block, split)


def _behind_groups(roles: Roles) -> Roles:
    """The parts of iterators behind that of the groups, where vectors run over the image."""
    return replace(
        roles,
        outer=(0, 1, *(i + 1 for i in roles.outer if i)),
        row=roles.row + 1,
        col=roles.col + 1,
        reduce=tuple(i + 1 for i in roles.reduce),
    )


def _relabel(sch: Schedule, block: SBlockRV, new_iters: Callable[..., list[tirx.PrimExpr]]) -> None:
    iters = sch.get(block).iter_vars
    moved = IndexMap.from_func(new_iters, len(iters), index_dtype=str(iters[0].var.ty.dtype))
    sch.transform_block_layout(block, moved)


def _flatten(sch: Schedule, block: SBlockRV, epilogue: SBlockRV, conv: Conv) -> None:
    """Makes one iterator of the image's axes, in the anchor and in its epilogue."""
    num_axes = conv.num_axes

    def pixel(image: Sequence[tirx.Var]) -> tirx.PrimExpr:
        found = image[0]
        for extent, at in zip(conv.image[1:], image[1:], strict=True):
            found = found * extent + at
        return found

    def of_output(n: tirx.Var, c: tirx.Var, *image: tirx.Var) -> list[tirx.PrimExpr]:
        return [n, c, pixel(image)]

    def of_anchor(n: tirx.Var, c: tirx.Var, *rest: tirx.Var) -> list[tirx.PrimExpr]:
        return [n, c, pixel(rest[:num_axes]), sum(rest[num_axes + 1 :], rest[num_axes])]

    sch.transform_layout(block, ("write", 0), of_output)
    _relabel(sch, block, of_anchor)
    _relabel(sch, epilogue, of_output)


def _move_channels_last(sch: Schedule, block: SBlockRV) -> None:
    """Lets the accumulators of one pixel lie next to each other."""

    def moved(*axes: tirx.Var) -> list[tirx.PrimExpr]:
        return [axes[0], *axes[2:], axes[1]]

    sch.transform_layout(block, ("write", 0), moved)
