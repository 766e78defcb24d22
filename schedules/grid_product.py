# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions on a GPU as `C[batch, row, column] += A * B`, whatever their axes.

The operands are read through their iterators (an implicit im2col for a convolution) into shared
memory; what follows the product elementwise is computed in its tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.analysis import Access, Analysis, Block, analyse
from kope_tvm.schedules.operands import is_multiply_add


@dataclass(frozen=True)
class Product:
    """A function whose only reduction is a product, and the parts its iterators play."""

    func: tirx.PrimFunc
    info: Analysis
    anchor: Block
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    """In the first operand and the result."""
    cols: tuple[int, ...]
    """In the second operand and the result."""
    deep: tuple[int, ...]
    """Added up over."""
    loads: tuple[Access, Access]
    """Of the first and the second operand."""

    def size(self, positions: Sequence[int]) -> int:
        return prod(self.anchor.iters[i].extent for i in positions)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, rows, columns, depth."""
        parts = (self.batch, self.rows, self.cols, self.deep)
        b, m, n, k = (self.size(part) for part in parts)
        return b, m, n, k

    def run(self, operand: int, lanes: int) -> str:
        """The side along which the operand has vectors of so many: `deep`, `own`, or neither."""
        load = self.loads[operand]
        own = (self.rows, self.cols)[operand]
        if self.info.writer(load.buffer) or not load.is_linear:
            return ""
        for name, part in (("deep", self.deep), ("own", own)):
            last = part[-1]
            extent = self.anchor.iters[last].extent
            if load.stride(last) == 1 and extent % lanes == 0 and _is_alone(load, last):
                return name
        return ""


def _is_alone(load: Access, at: int) -> bool:
    """Whether the iterator is the whole of the last index: no window, every vector in line."""
    return load.indices[-1].is_iter(at)


def find_product(func: tirx.PrimFunc) -> Product | None:
    """The parts of a product of two buffers; None where the function is none."""
    info = analyse(func)
    anchor = info.anchor if info else None
    if info is None or anchor is None or not is_multiply_add(anchor):
        return None
    others = [block for block in info.blocks if block is not anchor]
    if any(not b.is_injective or (info.is_output(b) and info.consumers(b)) for b in others):
        return None
    if sum(info.is_output(block) for block in info.blocks) != 1:
        return None
    first, second = anchor.loads
    found = _parts(anchor, first, second)
    if not found[1] or not found[2] or not found[3]:
        return None
    batch, rows, cols, deep = found
    return Product(func, info, anchor, batch, rows, cols, deep, (first, second))


def _parts(anchor: Block, first: Access, second: Access) -> tuple[tuple[int, ...], ...]:
    """Batch, rows, columns and depth; an iterator of extent one belongs where it is used."""
    out = anchor.stores[0]
    parts: tuple[list[int], ...] = ([], [], [], [])
    for i in range(len(anchor.iters)):
        if anchor.iters[i].kind == "R":
            parts[3].append(i)
        elif i in out.iters or anchor.iters[i].extent == 1:
            side = (i in first.iters) - (i in second.iters)
            parts[(0, 1, 2)[side]].append(i)
    return tuple(tuple(part) for part in parts)


@dataclass(frozen=True)
class Normal:
    """A schedule of the product as one batched one, padded to whole tiles."""

    sch: Schedule
    block: SBlockRV
    reads: tuple[SBlockRV, SBlockRV]
    """Blocks that bring the operands into order; to be inlined."""


def normalised(product: Product, tile: tuple[int, int, int]) -> Normal:
    """Loops batch, row, column, depth; operands `[batch, row, depth]`, `[batch, column, depth]`."""
    sch = Schedule(IRModule({"main": product.func}))
    info, anchor = product.info, product.anchor
    known = (anchor, *info.ancestors(anchor), *info.descendants(anchor))
    for other in (block for block in info.blocks if block not in known):
        sch.compute_inline(sch.get_sblock(other.name))
    block = sch.get_sblock(anchor.name)
    names = [str(region.source.name) for region in sch.get(block).reads]
    places = [names.index(load.buffer) for load in product.loads]
    reads = [sch.reindex(block, ("read", place)) for place in places]
    write = sch.reindex(block, ("write", 0))
    b, m, n, k = product.batch, product.rows, product.cols, product.deep
    for read, load, own in zip(reads, product.loads, (m, n), strict=True):
        sch.transform_layout(read, ("write", 0), _map(product, load.iters, (b, own, k)))
    sch.transform_layout(write, ("read", 0), _map(product, anchor.stores[0].iters, (b, m, n)))
    every = tuple(range(len(anchor.iters)))
    sch.transform_block_layout(block, _map(product, every, (b, m, n, k)))
    if any(size % step for size, step in zip(product.sizes[1:], tile, strict=True)):
        sch.pad_einsum(block, [1, *tile])
    for other in info.ancestors(anchor):
        sch.compute_inline(sch.get_sblock(other.name))
    return Normal(sch, block, (reads[0], reads[1]))


def inline_into(sch: Schedule, copy: SBlockRV) -> None:
    """Computes in `copy` what stands before it: padding, then the read in order."""
    for producer in sch.get_producers(copy):
        for before in sch.get_producers(producer):
            sch.compute_inline(before)
        sch.compute_inline(producer)


def _map(
    product: Product, given: tuple[int, ...], parts: tuple[tuple[int, ...], ...]
) -> tirx.IndexMap:
    """From the iterators `given`, in order, to one fused index a part."""

    def fused(*dims: Any) -> list[Any]:
        at = dict(zip(given, dims, strict=True))
        found = []
        for part in parts:
            index: Any = tirx.IntImm("int32", 0)
            for i in (i for i in part if i in at):
                index = index * product.anchor.iters[i].extent + at[i]
            found.append(index)
        return found

    return tirx.IndexMap.from_func(fused, ndim=len(given), index_dtype="int32")
