# SPDX-License-Identifier: Apache-2.0
"""Products of a few rows with weights in ggml's blocks of 32 along the reduction.

A row of weights is read once, in the order in which it lies: its blocks are unpacked in registers
for all rows of the other operand, summed in the lanes, and the lanes added up at the end. What
becomes of the other operand beforehand (int8 numbers with a scale a block, or floats sorted by
halves of blocks) is done once, before the only parallel loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.ggml_blocks import HALF, Q4_0, Q8_0, WEIGHTS
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.schedules.analysis import Access, Analysis, Block, analyse
from kope_tvm.schedules.block_dots import BlockDot, block_dot
from kope_tvm.schedules.contraction import best_first, choose, divisors, is_worth_threads
from kope_tvm.schedules.largest import largest_of
from kope_tvm.target import TargetSpec

_STACK = "global"
"""The scope of small buffers that TVM takes from the stack; all others cost a call of a pool."""
_MOST_ROWS = 4
"""Of one tile."""
_MOST_SUMS = 16
"""Vectors of sums in one tile."""
_SUMS = 8
"""So many hide the latency of an addition, and share what is computed of the rows."""
_STEPS = (1, 2, 4)
"""Neighbouring groups of blocks at a time."""
_OPERANDS = (("int8", "int32", "float32", "float32"), ("float32", "int32", "float32"))
"""Rows, weights, scales of rows, scales of weights."""
_FORMATS = {blocks.num_bytes: blocks for blocks in (Q4_0, Q8_0)}


def block_products(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """The design space of a product with weights in blocks; empty where it is none."""
    info = analyse(func)
    product = _product(info, target) if info else None
    if product is None:
        return []
    try:
        return [_built(func, product, target)]
    except TVM_ERRORS:  # Unpacked in another way than the intrinsic describes.
        return []


@dataclass(frozen=True)
class _Product:
    """Blocks by name, and the intrinsic for the innermost loops."""

    info: Analysis
    anchor: Block
    dot: BlockDot

    @property
    def is_exact(self) -> bool:
        """Whether rows are int8, with their scales beside them."""
        return self.dot.row_dtype == "int8"

    def writer(self, load: int) -> str:
        """The block that makes an operand of the anchor."""
        found = self.info.writer(self.anchor.loads[load].buffer)
        assert found is not None
        return found.name


def _product(info: Analysis, target: TargetSpec) -> _Product | None:
    """None where it is no such product."""
    anchor = info.blocks[-1]
    kinds = [it.kind for it in anchor.iters]
    if not (anchor.is_reduction and info.is_output(anchor) and kinds == list("SSRRR")):
        return None
    dtypes = tuple(load.dtype for load in anchor.loads)
    packed = [load for block in info.ancestors(anchor) for load in block.loads if _is_packed(load)]
    if not packed or anchor.extents("R")[1:] != (2, HALF) or dtypes not in _OPERANDS:
        return None
    blocks = _FORMATS[packed[0].shape[-1]]
    dot = block_dot(blocks, dtypes[0], anchor.extents("R")[0], target)
    return _Product(info, anchor, dot) if dot else None


def _is_packed(load: Access) -> bool:
    return load.dtype == "uint8" and load.shape[-1] in _FORMATS


def _built(func: tirx.PrimFunc, product: _Product, target: TargetSpec) -> Schedule:
    sch = Schedule(IRModule({"main": func}))
    for load in (1, -1):
        sch.compute_inline(sch.get_sblock(product.writer(load)))
    block = sch.get_sblock(product.anchor.name)
    output = sch.cache_write(block, 0, _STACK)
    partial = _partial(sch, block, product.dot)
    _arrange_rows(sch, partial, product)
    rows, cols, *depths = (it.extent for it in product.anchor.iters)
    row_tile = divisors(rows, _MOST_ROWS)[-1]
    widths = [n for n in divisors(cols, _MOST_SUMS) if n * row_tile <= _MOST_SUMS]
    row, col, _ = sch.get_loops(block)
    tiles, row = sch.split(row, [None, row_tile])
    width = choose(sch, best_first(widths, lambda n: -abs(n * row_tile - _SUMS)))
    task, col = sch.split(col, [None, width])
    sch.reorder(task, tiles, row, col)
    if is_worth_threads(rows * cols * prod(depths), target.facts):
        sch.parallel(task)
    sch.reverse_compute_at(output, tiles, preserve_unit_loops=True)
    _tile_partial(sch, partial, tiles, product.dot)
    _tile_sum(sch, block, product.dot)
    for loop in sch.get_loops(output)[2:]:
        sch.unroll(loop)
    return sch


def _partial(sch: Schedule, block: SBlockRV, dot: BlockDot) -> SBlockRV:
    """Sums in lanes: so many of each of the blocks that pass by together."""
    row, col, blocks, half, at = sch.get_loops(block)
    if dot.group == 1:
        sch.reorder(row, col, blocks, at, half)
        return sch.rfactor(at, 2)
    blocks, own = sch.split(blocks, [None, dot.num_blocks])
    lane, neighbour = sch.split(at, [None, dot.group])
    sch.reorder(row, col, blocks, own, lane, half, neighbour)
    return sch.rfactor(sch.fuse(own, lane), 2)


def _arrange_rows(sch: Schedule, partial: SBlockRV, product: _Product) -> None:
    """The other operand lies as it is read, and is made in vectors."""
    num = product.dot.num_blocks
    if not product.is_exact:
        data = sch.cache_read(partial, 0, "global")
        sch.transform_layout(
            data, ("write", 0), lambda i, k: [i, k // WEIGHTS, k % WEIGHTS // HALF, k % HALF]
        )
        _, depth = sch.get_loops(data)
        _, lane = sch.split(depth, [None, HALF])
        sch.vectorize(lane)
        return
    numbers, scales = (sch.get_sblock(product.writer(load)) for load in (0, 2))
    largest = sch.get_producers(scales)[0]
    sch.transform_layout(
        numbers, ("write", 0), lambda i, b, h, t: [i, b // num, h, b % num * HALF + t]
    )
    sch.transform_layout(scales, ("write", 0), lambda i, b: [i, b // num, b % num])
    sch.vectorize(sch.get_loops(numbers)[-1])
    last = sch.get_loops(largest)[-1]
    sch.decompose_reduction(largest, last)
    sch.tensorize(last, largest_of(WEIGHTS))


def _tile_partial(sch: Schedule, partial: SBlockRV, at: LoopRV, dot: BlockDot) -> None:
    sch.compute_at(partial, at, preserve_unit_loops=True)
    lane, row, col, depth, *inner = sch.get_loops(partial)[2:]
    steps = [n for n in _STEPS if int(sch.get(depth).extent) % n == 0]
    depth, step = sch.split(depth, [None, choose(sch, steps)])
    sch.reorder(depth, step, col, row, lane, *inner)
    for loop in (step, col, row):
        sch.unroll(loop)
    init = sch.decompose_reduction(partial, depth)
    *outer, lanes = sch.get_loops(init)[2:]
    for loop in outer:
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.tensorize(lane, dot.name)


def _tile_sum(sch: Schedule, block: SBlockRV, dot: BlockDot) -> None:
    row, col, lanes = sch.get_loops(block)[2:]
    sch.unroll(row)
    sch.unroll(col)
    sch.decompose_reduction(block, lanes)
    sch.tensorize(lanes, dot.sum_name)
