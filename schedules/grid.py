# SPDX-License-Identifier: Apache-2.0
"""Loops on a GPU: blocks of threads, vectors of sixteen bytes, and samples of their sizes."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.analysis import Access, Analysis, Block, analyse
from kope_tvm.schedules.operands import is_copy
from kope_tvm.schedules.stages import Stage, is_dear, without_last_copy
from kope_tvm.target import TargetSpec

LOAD_BYTES = 16
"""What one thread moves by one instruction at best."""
FEW_THREADS = 128
"""The smallest block that fills a multiprocessor."""


def is_cuda(target: TargetSpec) -> bool:
    """Whether the machine is one of NVIDIA's GPUs."""
    return target.facts.isa == "cuda"


def sample(sch: Schedule, candidates: list[int], guess: int) -> Any:
    """Draw from `candidates`, `guess` first."""
    share = 1.0 / len(candidates)
    return sch.sample_categorical(
        candidates=candidates, probs=[share] * len(candidates), decision=candidates.index(guess)
    )


def fused(sch: Schedule, loops: list[Any]) -> Any:
    """One loop of many."""
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def element_bytes(dtype: str) -> int:
    """Of one element in memory."""
    return 1 if dtype == "bool" else max(1, tvm.DataType(dtype).bits // 8)


def lanes_of(dtypes: Iterable[str], extents: Iterable[int]) -> int:
    """Lanes of the widest vector that every access can have, so that it divides all extents.

    CUDA has vectors of up to four words, and of eight halves.
    """
    widest = max((element_bytes(dtype) for dtype in dtypes), default=4)
    lanes = LOAD_BYTES // widest if widest > 1 else 4
    return gcd(max(1, lanes), *extents)


def inlined(func: tirx.PrimFunc, *, keep_dear: bool) -> tuple[Schedule, Analysis] | None:
    """A schedule of `func` with all that is elementwise inlined, and what it then is made of.

    What many instructions make or a reshape brings, and two stages read, is kept where
    `keep_dear` says so.
    """
    analysis = analyse(func)
    if analysis is None or not all(block.stores for block in analysis.blocks):
        return None
    sch = Schedule(IRModule({"main": func}))
    analysis = without_last_copy(sch, analysis)
    while analysis is not None:
        found = (b for b in analysis.blocks if _is_inlinable(b, analysis, keep_dear))
        block = next(found, None)
        if block is None:
            return sch, analysis
        sch.compute_inline(sch.get_sblock(block.name))
        analysis = analyse(sch.mod["main"])
    return None


def _is_inlinable(block: Block, analysis: Analysis, keep_dear: bool) -> bool:
    if not block.is_injective or analysis.is_output(block):
        return False
    if not keep_dear or len(analysis.consumers(block)) < 2 or not _is_of_elements(block, analysis):
        return True
    return not is_dear(block) and not (is_copy(block) and _is_reshape(block))


def _is_reshape(block: Block) -> bool:
    """Whether an index is made of several iterators, or a part of one."""
    return any(not ix.linear or len(ix.iters) > 1 for load in block.loads for ix in load.indices)


def _is_of_elements(block: Block, analysis: Analysis) -> bool:
    """Whether a reduction consumes it: a value an element, not one a row."""
    return any(consumer.is_reduction for consumer in analysis.consumers(block))


def only_load(stage: Stage, buffer: str) -> Access | None:
    """The one load of `buffer` in a stage, where it is of an element a row and column."""
    loads = {load for load in stage.block.loads if load.buffer == buffer}
    load = loads.pop() if len(loads) == 1 else None
    wanted = {*stage.rows, *stage.columns}
    if load is None or not wanted <= set(load.iters):
        return None
    plain = all(
        (not ix.iters and not ix.const) or (ix.iters and ix.is_iter(ix.iters[0]))
        for ix in load.indices
    )
    return load if plain else None


def brought_to_shared(sch: Schedule, info: Analysis, buffer: str, reader: SBlockRV) -> SBlockRV:
    """The block that fills shared memory: a padding, or a copy of what comes from outside."""
    writer = info.writer(buffer)
    if writer is None:
        reads = [str(region.source.name) for region in sch.get(reader).reads]
        return sch.cache_read(reader, reads.index(buffer), "shared")
    copy = sch.get_sblock(writer.name)
    sch.set_scope(copy, 0, "shared")
    return copy


def merged(block: Block, groups: Iterable[Iterable[int]]) -> tirx.IndexMap:
    """From the iterators of a block to one a group."""

    def found(*iters: Any) -> list[Any]:
        totals = []
        for group in groups:
            total: Any = tirx.IntImm("int32", 0)
            for i in group:
                total = total * block.iters[i].extent + iters[i]
            totals.append(total)
        return totals

    return tirx.IndexMap.from_func(found, ndim=len(block.iters), index_dtype="int32")
