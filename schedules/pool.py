# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling windows over NCHW images."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
from tvm import tirx

from kope_tvm.schedules.analysis import Analysis, Block
from kope_tvm.schedules.contraction import HINT
from kope_tvm.schedules.rows import GRAIN_VECTORS, sample
from kope_tvm.schedules.stages import element_bits, mixes_kinds, start
from kope_tvm.target import Facts, TargetSpec


def windows(func: tirx.PrimFunc, target: TargetSpec) -> list[tvm.s_tir.Schedule]:
    """A plane at a time: pad it into cache, then windows with the output's rows as lanes."""
    started = start(func, keep_padding=True)
    if started is None:
        return []
    analysis = started[1]
    anchor = analysis.anchor
    if anchor is None or not _is_window(anchor):
        return []
    before, after = analysis.producers(anchor), analysis.descendants(anchor)
    if len(before) > 1 or len(before) + len(after) + 1 != len(analysis.blocks) or len(after) > 1:
        return []
    if after and not _same_plane(anchor, after[0]):
        return []
    spaces = []
    for windows in (_windows_by_llvm, _windows_by_lanes):
        sch = started[0].copy()
        lanes = _schedule_planes(sch, analysis, anchor, target.facts)
        windows(sch, anchor, lanes)
        spaces.append(sch)
    return spaces


def _is_window(block: Block) -> bool:
    """Two reduction iterators, each added to a spatial one of the only load."""
    if len(block.loads) != 1 or len(block.stores) != 1:
        return False
    spatial = [i for i, it in enumerate(block.iters) if it.kind == "S"]
    windows = [
        index
        for index in block.loads[0].indices
        if {block.iters[i].kind for i in index.iters} == {"S", "R"} and index.linear
    ]
    return (
        len(spatial) == 4
        and len(block.iters) == 6
        and len(windows) == 2
        and any(mixes_kinds(block, index) for index in windows)
    )


def _same_plane(anchor: Block, after: Block) -> bool:
    return after.is_injective and after.extents("S") == anchor.extents("S")


def _schedule_planes(
    sch: tvm.s_tir.Schedule, analysis: Analysis, anchor: Block, facts: Facts
) -> int:
    """Everything but the windows; answers the lanes that an output row fills."""
    last = analysis.descendants(anchor)[0] if analysis.descendants(anchor) else anchor
    num_planes = prod(anchor.extents("S")[:2])
    bits = element_bits(anchor)
    lanes = min(anchor.extents("S")[3], facts.vlen_bits // bits)
    block = sch.get_sblock(last.name)
    # Several planes at a time: what was padded has left the store queue before it is read.
    groups_fit = [n for n in (1, 2, 4, 8) if num_planes % n == 0]
    plane_bytes = prod(anchor.loads[0].shape[2:]) * bits // 8
    guess = max(n for n in groups_fit if n == 1 or n * plane_bytes * 2 <= facts.l1_bytes)
    group = sample(sch, groups_fit, guess)
    groups, plane = sch.split(sch.fuse(*sch.get_loops(block)[:2]), [None, group])
    work = prod(it.extent for it in anchor.iters) * bits // facts.vlen_bits
    if facts.num_cores > 1 and work >= GRAIN_VECTORS and num_planes >= facts.num_cores:
        sch.parallel(groups)
    if last is not anchor:
        sch.compute_at(sch.get_sblock(anchor.name), plane, preserve_unit_loops=True)
        _vectorized(sch, sch.get_loops(block)[-1], lanes)
    for producer in analysis.producers(anchor):
        padding = sch.get_sblock(producer.name)
        sch.compute_at(padding, groups, preserve_unit_loops=True)
        row, column = sch.get_loops(padding)[-2:]
        _vectorized(sch, column, facts.vlen_bits // bits)
        sch.annotate(row, HINT, True)
    return lanes


def _windows_by_llvm(sch: tvm.s_tir.Schedule, anchor: Block, lanes: int) -> None:
    """Only unroll: LLVM turns the strided loads of a row into shuffles, TVM into scalar loads."""
    for loop in sch.get_loops(sch.get_sblock(anchor.name))[-2:]:
        sch.unroll(loop)


def _windows_by_lanes(sch: tvm.s_tir.Schedule, anchor: Block, lanes: int) -> None:
    block = sch.get_sblock(anchor.name)
    row, column, down, across = sch.get_loops(block)[-4:]
    height = anchor.extents("S")[2]
    tall = sample(sch, [n for n in (1, 2, 4) if height % n == 0], 1)
    row, line = sch.split(row, [None, tall])
    outer, lane = sch.split(column, [None, lanes])
    sch.reorder(row, outer, down, across, line, lane)
    for loop in (outer, lane, down, across):
        sch.annotate(loop, HINT, True)
    for loop in (down, across, line):
        sch.unroll(loop)
    sch.vectorize(lane)


def _vectorized(sch: tvm.s_tir.Schedule, loop: Any, lanes: int) -> None:
    outer, lane = sch.split(loop, [None, lanes])
    sch.vectorize(lane)
    for each in (outer, lane):
        sch.annotate(each, HINT, True)
