# SPDX-License-Identifier: Apache-2.0
"""Products of float16 summed in float32 on a GPU's matrix units, 16 by 16 by 16 at a time."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.intrinsics import register_intrinsics_of
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.schedules.grid import LOAD_BYTES, fused
from kope_tvm.schedules.grid_product import Normal, Product, inline_into, normalised
from kope_tvm.target import TargetSpec

_UNIT = 16
"""Elements along each side of what a warp multiplies by one instruction."""
_HALVES = LOAD_BYTES // 2
_WARP = 32


@dataclass(frozen=True)
class WarpTile:
    """Warps of a block along rows and columns, units of each, and units of a step in depth.

    Steps are copied ahead without passing registers where there are `ahead` of them; none are
    where that is zero, and the next one is brought by way of registers.
    """

    warps: tuple[int, int]
    own: tuple[int, int]
    depth: int
    ahead: int = 0

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and depth of a block's step, in elements."""
        rows, cols = (w * own * _UNIT for w, own in zip(self.warps, self.own, strict=True))
        return rows, cols, self.depth * _UNIT


TILES = (
    WarpTile((2, 2), (4, 4), 2, ahead=2),
    WarpTile((2, 2), (4, 4), 2, ahead=3),
    WarpTile((2, 4), (4, 4), 2, ahead=2),
    WarpTile((2, 2), (4, 4), 2),
    WarpTile((2, 2), (4, 4), 4),
    WarpTile((2, 4), (4, 4), 2),
    WarpTile((2, 2), (2, 4), 2, ahead=3),
    WarpTile((2, 2), (2, 4), 4),
    WarpTile((4, 4), (2, 2), 4),
)
"""The last is that of TVM's dlight."""


def matrix_units(product: Product, target: TargetSpec) -> list[Schedule]:
    """A space a tile, loads of the next step under way; empty for other dtypes."""
    dtypes = [*(load.dtype for load in product.loads), product.anchor.stores[0].dtype]
    if dtypes != ["float16", "float16", "float32"]:
        return []
    register_intrinsics_of(str(target.tvm_target["kind"]))
    made = (_made(product, tile) for tile in _worth(product, target))
    return [sch for sch in made if sch is not None]


def _made(product: Product, tile: WarpTile) -> Schedule | None:
    """None where TVM finds the units' instructions in no such blocks, as at a depth of one unit."""
    try:
        return _Units(product, tile).run()
    except TVM_ERRORS:
        return None


def _worth(product: Product, target: TargetSpec) -> list[WarpTile]:
    """Without those that leave most multiprocessors idle where a smaller one does not."""
    batch, rows, cols, _ = product.sizes

    def blocks(tile: WarpTile) -> int:
        return batch * -(-rows // tile.sizes[0]) * -(-cols // tile.sizes[1])

    most = max(blocks(tile) for tile in TILES)
    few = min(most, target.facts.num_cores // 2)
    return [tile for tile in TILES if blocks(tile) >= few]


class _Units:
    def __init__(self, product: Product, tile: WarpTile) -> None:
        normal: Normal = normalised(product, tile.sizes)
        self.product = product
        self.sch = normal.sch
        self.block = normal.block
        self.reads = normal.reads
        self.tile = tile
        self.is_across = product.run(1, _HALVES) == "own"
        """Whether the second operand lies `[depth, column]`."""

    def run(self) -> Schedule:
        sch, tile = self.sch, self.tile
        if self.is_across:
            sch.transform_layout(self.reads[1], ("write", 0), lambda b, own, deep: (b, deep, own))
        unit, inner, loops = self._blocked()
        batch, row, col, deep = loops
        rows, row, own_row = sch.split(row, [None, tile.warps[0], tile.own[0]])
        cols, col, own_col = sch.split(col, [None, tile.warps[1], tile.own[1]])
        step, part = sch.split(deep, [None, tile.depth])
        sch.reorder(rows, cols, row, col, step, part, own_row, own_col)
        grid, warp = sch.fuse(rows, cols), sch.fuse(row, col)
        sch.bind(batch, "blockIdx.y")
        sch.bind(grid, "blockIdx.x")
        sch.bind(warp, "threadIdx.y")
        self._pipeline(step, part)
        for operand in (0, 1):
            self._share(unit, operand, step)
        fragments = [self._fragment(unit, operand, part) for operand in (0, 1)]
        shared = sch.cache_write(unit, 0, "shared.dyn")
        store = sch.cache_write(unit, 0, "wmma.accumulator")
        sch.reverse_compute_at(store, warp)
        sch.reverse_compute_at(shared, warp)
        stored = self._units(store, unrolled=False)
        start = sch.decompose_reduction(unit, step)
        self._tensorize(fragments, start, stored, inner)
        self._write(shared)
        return sch

    def _blocked(self) -> tuple[SBlockRV, SBlockRV, list[LoopRV]]:
        """The block over units, the one of a unit, and the loops around both."""
        sch = self.sch
        batch, *loops = sch.get_loops(self.block)
        split = [sch.split(loop, [None, _UNIT]) for loop in loops]
        sch.reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
        unit = sch.blockize(split[0][1])
        return unit, self.block, [batch, *(outer for outer, _ in split)]

    def _pipeline(self, step: LoopRV, part: LoopRV) -> None:
        """Loads of the next step, and of the next part's fragments, before the present one's sums.

        The orders are those of TVM's dlight: loads to registers, from there to shared memory (two
        operands), and the three parts of the pipelined loop over a step.
        """
        sch, ahead = self.sch, self.tile.ahead
        if ahead:
            sch.annotate(step, "software_pipeline_order", [0, 1, 2])
            sch.annotate(step, "software_pipeline_stage", [0, 0, ahead])
            sch.annotate(step, "software_pipeline_async_stages", [0])
            return
        sch.annotate(step, "software_pipeline_order", [0, 3, 1, 4, 5, 2, 6])
        sch.annotate(step, "software_pipeline_stage", [0, 0, 0, 0, 0, 1, 1])
        sch.annotate(part, "software_pipeline_order", [0, 1, 2])
        sch.annotate(part, "software_pipeline_stage", [0, 0, 1])

    def _share(self, unit: SBlockRV, operand: int, step: LoopRV) -> None:
        sch, tile = self.sch, self.tile
        copy = sch.cache_read(unit, operand, "shared.dyn")
        sch.compute_at(copy, step)
        inline_into(sch, copy)
        along = "own" if operand and self.is_across else "deep"
        lanes = _HALVES if self.product.run(operand, _HALVES) == along else 1
        loop = fused(sch, sch.get_loops(copy)[-2:])
        warps = tile.warps[0] * tile.warps[1]
        _, warp, thread, lane = sch.split(loop, [None, warps, _WARP, lanes])
        sch.bind(warp, "threadIdx.y")
        sch.bind(thread, "threadIdx.x")
        sch.vectorize(lane)
        # rows eight halves apart from a multiple of 32: neighbours in a column meet other banks
        sch.storage_align(copy, 0, -2, 32, _HALVES)
        if not tile.ahead:
            sch.annotate(copy, "tirx.manifest_shared_memory_local_stage", 1)
            sch.annotate(copy, "double_buffer_scope", 0)

    def _fragment(self, unit: SBlockRV, operand: int, part: LoopRV) -> LoopRV:
        """Brings a part to the matrix units' registers; the loop that one instruction does."""
        copy = self.sch.cache_read(unit, operand, f"wmma.matrix_{'ab'[operand]}")
        self.sch.compute_at(copy, part)
        return self._units(copy, unrolled=True)

    def _units(self, block: SBlockRV, *, unrolled: bool) -> LoopRV:
        sch = self.sch
        (i, ii), (j, jj) = (sch.split(n, [None, _UNIT]) for n in sch.get_loops(block)[-2:])
        sch.reorder(i, j, ii, jj)
        for loop in (i, j) if unrolled else ():
            sch.unroll(loop)
        return ii

    def _tensorize(
        self, fragments: list[LoopRV], start: SBlockRV, stored: LoopRV, inner: SBlockRV
    ) -> None:
        from tvm.s_tir.tensor_intrin.cuda import get_wmma_intrin_group

        sch = self.sch
        names = get_wmma_intrin_group(
            "shared.dyn", "shared.dyn", "float16", "float32", not self.is_across
        )
        for loop, name in zip(fragments, ("load_a", "load_b"), strict=True):
            sch.tensorize(loop, names[name])
        sch.tensorize(sch.get_loops(sch.get_child_blocks(start)[0])[-2], names["init"])
        sch.tensorize(stored, names["store"])
        sch.tensorize(sch.get_loops(inner)[-3], names["compute"])

    def _write(self, shared: SBlockRV) -> None:
        """Computes what follows, element by element, on the way to device memory."""
        sch = self.sch
        while sch.get_consumers(shared):
            sch.reverse_compute_inline(sch.get_consumers(shared)[0])
        loop = fused(sch, sch.get_loops(shared)[-2:])
        _, thread, lane = sch.split(loop, [None, _WARP, LOAD_BYTES // 4])
        sch.bind(thread, "threadIdx.x")
        sch.vectorize(lane)
