# SPDX-License-Identifier: Apache-2.0
"""What surrounds a contraction: its producers, its packed operands and its epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Access, Analysis, Block
from kope_tvm.schedules.contraction import (
    Roles,
    is_worth_threads,
    power_of_two_divisor,
    whole_lanes,
    work_of,
)
from kope_tvm.target import Facts

_MOVE_WORK = 8
"""Multiply-adds in the time of moving one element."""


def fuse_epilogue(
    sch: Schedule, info: Analysis, anchor: Block, lanes: int, facts: Facts
) -> SBlockRV | None:
    """Makes one block of the elementwise operations after the anchor; None where it cannot.

    What follows them and is not elementwise (a broadcast, a transpose) becomes a stage of its own.
    """
    after = info.descendants(anchor)
    known = (anchor, *after, *info.ancestors(anchor))
    aside = [b for b in info.blocks if b not in known]
    if any(info.is_output(b) or not b.is_injective for b in aside):
        return None
    near = _elementwise(info, anchor, after)
    far = after[len(near) :]
    if not _is_separable(info, (anchor, *near), far):
        return None
    for other in (*aside, *near[:-1], *far[:-1]):
        sch.compute_inline(sch.get_sblock(other.name))
    if far:
        stage(sch, sch.get_sblock(far[-1].name), lanes, facts)
    block = sch.get_sblock(anchor.name)
    if not near:
        return sch.cache_write(block, 0, "local")
    sch.set_scope(block, 0, "local")
    return sch.get_sblock(near[-1].name)


def _elementwise(info: Analysis, anchor: Block, after: tuple[Block, ...]) -> tuple[Block, ...]:
    """The leading blocks of `after` that are elementwise on the anchor's output."""
    chain = anchor.writes
    for count, block in enumerate(after):
        chain |= block.writes
        own = [access for access in (*block.stores, *block.loads) if access.buffer in chain]
        if (
            not block.is_injective
            or block.stores[0].shape != anchor.stores[0].shape
            or not all(access.is_identity for access in own)
        ):
            return after[:count]
    return after


def _is_separable(info: Analysis, near: tuple[Block, ...], far: tuple[Block, ...]) -> bool:
    """Whether only the last block of all is output, and `far` reads only the last of `near`."""
    blocks = (*near, *far)
    inner = {name for block in near[:-1] for name in block.writes}
    return (
        all(block.is_injective and not block.reads & inner for block in far)
        and info.is_output(blocks[-1])
        and not any(info.is_output(block) for block in blocks[:-1])
    )


def settle_producers(
    sch: Schedule, info: Analysis, anchor: Block, kept: set[str]
) -> list[Block] | None:
    """Inlines what computes the anchor's operands; None where it cannot.

    The writers of `kept` stay and are returned.
    """
    before = info.ancestors(anchor)
    if any(info.is_output(block) or not block.is_injective for block in before):
        return None
    stay = [block for block in before if block.writes & kept]
    for block in before:
        if block not in stay:
            sch.compute_inline(sch.get_sblock(block.name))
    return stay


def producer_of(sch: Schedule, anchor: SBlockRV, operand: int) -> SBlockRV:
    """The block that writes the operand of `anchor` at `operand` now."""
    source = sch.get(anchor).reads[operand].source
    for block in sch.get_producers(anchor):
        if sch.get(block).writes[0].source.same_as(source):
            return block
    raise ValueError(f"nothing writes operand {operand} of block {sch.get(anchor).name_hint}")


def is_multiply_add(anchor: Block) -> bool:
    """Whether the block is `out += a * b` of two different buffers, widened or not."""
    if len(anchor.stores) != 1 or len(anchor.loads) != 2 or len(anchor.reads) != 2:
        return False
    value = anchor.body.value
    if not isinstance(value, tirx.Add):
        return False
    product = value.b if isinstance(value.b, tirx.Mul) else value.a
    return isinstance(product, tirx.Mul) and all(_is_operand(x) for x in (product.a, product.b))


def is_copy(block: Block) -> bool:
    """Whether the block stores a single load as it is."""
    return isinstance(block.body, tirx.BufferStore) and isinstance(block.body.value, TensorLoad)


def _is_operand(expr: object) -> bool:
    return isinstance(expr.value if isinstance(expr, tirx.Cast) else expr, TensorLoad)


def pack_panels(
    sch: Schedule, load: Access, pack: SBlockRV, roles: Roles, lanes: int, group: int = 1
) -> None:
    """Gives what `pack` writes the layout `outer, column // lanes, reduction, column % lanes`.

    So many as a `group` has, neighbours of the last reduction lie together behind each column.
    """
    col = load.dim_of(roles.col)
    deep = [p for p, ix in enumerate(load.indices) if set(ix.iters) & set(roles.reduce)]
    flat = [p for p in range(len(load.indices)) if p != col and p not in deep]

    def panels(*dims: tirx.Var) -> list[tirx.PrimExpr]:
        head, tail = [dims[p] for p in flat], [dims[p] for p in deep]
        if group == 1:
            return [*head, dims[col] // lanes, *tail, dims[col] % lanes]
        *tail, last = tail
        return [*head, dims[col] // lanes, *tail, last // group, dims[col] % lanes, last % group]

    sch.transform_layout(pack, ("write", 0), panels)


def stage_pack(
    sch: Schedule,
    load: Access,
    pack: SBlockRV,
    roles: Roles,
    lanes: int,
    facts: Facts,
    group: int = 1,
) -> None:
    """Schedules a packing block: panels in parallel, lanes as vectors."""
    loops = sch.get_loops(pack)
    threads = _is_worth_threads(sch, loops, facts)
    panel = _pack_lanes(sch, load, loops, roles, lanes, group)
    if threads:
        sch.parallel(panel)


def stage_panel(
    sch: Schedule,
    load: Access,
    pack: SBlockRV,
    at: LoopRV,
    roles: Roles,
    lanes: int,
    group: int = 1,
) -> None:
    """Packs under the loop `at` over column panels, so that a panel is in cache when it is used."""
    sch.compute_at(pack, at, preserve_unit_loops=True)
    loops = sch.get_loops(pack)[-len(load.indices) :]
    _pack_lanes(sch, load, loops, roles, lanes, group)


def _pack_lanes(
    sch: Schedule, load: Access, loops: Sequence[LoopRV], roles: Roles, lanes: int, group: int
) -> LoopRV:
    """Orders a packing nest as its panels lie, with vectors innermost; the loop over panels."""
    col = load.dim_of(roles.col)
    if group > 1:
        return _pack_groups(sch, load, loops, roles, lanes, group)
    width = whole_lanes(load.shape[col], lanes)
    panel, group, lane = sch.split(loops[col], [None, lanes // width, width])
    rest = [loop for p, loop in enumerate(loops) if p != col]
    sch.reorder(panel, *rest, group, lane)
    sch.unroll(group)
    sch.vectorize(lane)
    return panel


def _pack_groups(
    sch: Schedule, load: Access, loops: Sequence[LoopRV], roles: Roles, lanes: int, group: int
) -> LoopRV:
    """`_pack_lanes` where neighbours of the reduction interleave; LLVM finds the shuffles."""
    col, deep = load.dim_of(roles.col), load.dim_of(roles.reduce[-1])
    panel, lane = sch.split(loops[col], [None, lanes])
    outer, neighbour = sch.split(loops[deep], [None, group])
    rest = [loop for p, loop in enumerate(loops) if p not in (col, deep)]
    sch.reorder(panel, *rest, outer, lane, neighbour)
    sch.unroll(neighbour)
    return panel


def stage_pad(sch: Schedule, pad: SBlockRV, facts: Facts) -> None:
    """Schedules an NC... padding block: channels in parallel, each filled, then copied by rows."""
    batch, channel, *image = sch.get_loops(pad)
    threads = _is_worth_threads(sch, (batch, channel, *image), facts)
    task = sch.fuse(batch, channel)
    if threads:
        sch.parallel(task)
    if sch.can_decompose_padding(pad, image[0]):
        sch.decompose_padding(pad, image[0])


def stage(sch: Schedule, block: SBlockRV, lanes: int, facts: Facts) -> None:
    """Schedules a block of its own: outer loops parallel, vectors along the last."""
    loops = sch.get_loops(block)
    *outer, last = loops
    width = power_of_two_divisor(int(sch.get(last).extent), lanes)
    threads = bool(outer) and _is_worth_threads(sch, loops, facts)
    if threads:
        sch.parallel(sch.fuse(*outer))
    if width > 1:
        _, lane = sch.split(last, [None, width])
        sch.vectorize(lane)


def _is_worth_threads(sch: Schedule, loops: Sequence[LoopRV], facts: Facts) -> bool:
    return is_worth_threads(_MOVE_WORK * work_of(sch, loops), facts)
