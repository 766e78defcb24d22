# SPDX-License-Identifier: Apache-2.0
"""int8 matrix products by SpacemiT's `vmadot`, on targets that say they have it.

No target that comes with kope does: on a K1 the first four cores have it, and no emulator that
runs a board's server knows it. A target file turns it on with `+xsmtvdot` in its `mattr`.
"""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.contraction import is_worth_threads
from kope_tvm.schedules.vmadot import COLS, DEPTH, FEATURE, ROWS, STEPS, vmadot
from kope_tvm.target import TargetSpec

_VLEN_BITS = 256
"""Of the layout that the intrinsic has; at other lengths it is another."""
_KINDS = (tirx.IterVar.DataPar, tirx.IterVar.DataPar, tirx.IterVar.CommReduce)


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """One space for a plain product of two int8 matrices summed in int32; none for others."""
    if not _has_it(target):
        return []
    sch = Schedule(IRModule({"main": func}))
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    if len(blocks) != 1 or not _is_product(sch.get(blocks[0])):
        return []
    _tile(sch, blocks[0], target)
    return [sch]


def _has_it(target: TargetSpec) -> bool:
    features = target.tvm_target.get("mattr", ())
    known = features if isinstance(features, (list, tuple)) else ()
    return f"+{FEATURE}" in known and target.facts.vlen_bits == _VLEN_BITS


def _is_product(block: SBlock) -> bool:
    """Whether it is `C[i, j] += A[i, k] * B[k, j]` by its types and indices."""
    if tuple(each.iter_type for each in block.iter_vars) != _KINDS:
        return False
    row, col, deep = (each.var for each in block.iter_vars)
    regions = [*block.reads, *block.writes]
    wanted = (((row, deep), "int8"), ((deep, col), "int8"), ((row, col), "int32"))
    return len(regions) == len(wanted) and all(
        str(region.source.dtype) == dtype
        and len(region.region) == len(indices)
        and all(each.min.same_as(index) for each, index in zip(region.region, indices, strict=True))
        for region, (indices, dtype) in zip(regions, wanted, strict=True)
    )


def _tile(sch: Schedule, block: SBlockRV, target: TargetSpec) -> None:
    """Both operands packed in tiles, rows shared between cores, a tile of sums in registers."""
    work = prod(int(sch.get(loop).extent) for loop in sch.get_loops(block))
    sch.cache_write(block, 0, "global")
    sch.pad_einsum(block, [ROWS, COLS, DEPTH])
    beside = sch.get_child_blocks(sch.get_sblock("root"))
    padded = [each for each in beside if sch.get(each).name_hint.endswith("_pad")]
    for operand in (0, 1):
        sch.cache_read(block, operand, "global")
    for each in padded:
        sch.compute_inline(each)
    sch.transform_layout(
        block, ("read", 0), lambda i, k: (i // ROWS, k // DEPTH, i % ROWS, k % DEPTH)
    )
    sch.transform_layout(
        block, ("read", 1), lambda k, j: (j // COLS, k // DEPTH, j % COLS, k % DEPTH)
    )
    sch.transform_layout(
        block, ("write", 0), lambda i, j: (i // ROWS, j // COLS, i % ROWS, j % COLS)
    )
    _tensorize(sch, block, is_shared=is_worth_threads(work, target.facts))


def _tensorize(sch: Schedule, block: SBlockRV, *, is_shared: bool) -> None:
    row, col, deep = sch.get_loops(block)
    num_steps = int(sch.get(deep).extent) // DEPTH
    steps = next(each for each in STEPS if num_steps % each == 0)
    rows, row = sch.split(row, [None, ROWS])
    cols, col = sch.split(col, [None, COLS])
    outer, deep = sch.split(deep, [None, steps * DEPTH])
    sch.reorder(rows, cols, outer, row, col, deep)
    start = sch.decompose_reduction(block, outer)
    sch.vectorize(sch.fuse(*sch.get_loops(start)[-2:]))
    if is_shared:
        sch.parallel(rows)
    sch.tensorize(row, vmadot(steps))
