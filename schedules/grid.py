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

from kope_tvm.schedules.analysis import Access, Analysis, Block, Index, analyse
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

    What many instructions make, and two stages read, is kept where `keep_dear` says so.
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
    is_shared = len(analysis.consumers(block)) > 1
    return not (keep_dear and is_shared and is_dear(block) and _is_of_elements(block, analysis))


def _is_of_elements(block: Block, analysis: Analysis) -> bool:
    """Whether a reduction consumes it: a value an element, not one a row."""
    return any(consumer.is_reduction for consumer in analysis.consumers(block))


def only_load(stage: Stage, buffer: str) -> Access | None:
    """The one load of `buffer` in a stage, where it is of an element a row and column."""
    loads = {load for load in stage.block.loads if load.buffer == buffer}
    load = loads.pop() if len(loads) == 1 else None
    if load is None or set(load.iters) & {*stage.rows, *stage.columns} != {
        *stage.rows,
        *stage.columns,
    }:
        return None
    shape = zip(load.indices, load.shape, strict=True)
    return load if all(_is_whole(index, stage.block, size) for index, size in shape) else None


def radix(index: Index) -> list[int]:
    """Its iterators, the slowest first."""
    return sorted(index.iters, key=lambda i: -index.coefs[i])


def _is_whole(index: Index, block: Block, size: int) -> bool:
    """Whether it goes through a dimension of `size` once, or stays at its start."""
    if not index.linear or index.const:
        return False
    step = 1
    for i in reversed(radix(index)):
        if index.coefs[i] != step:
            return False
        step *= block.iters[i].extent
    return not index.iters or step == size
