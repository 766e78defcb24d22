# SPDX-License-Identifier: Apache-2.0
"""Functions as a list of stages over common rows: what softmax, norms and reductions share.

A row is one value of the first reduction's spatial iterators; the other iterators of a
block are its columns. `find_stages` says which iterator is what in every block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, IRModule, Op
from tvm.ir.expr import TensorLoad

from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.schedules.analysis import Access, Analysis, Block, Index, analyse
from kope_tvm.schedules.operands import is_copy

_DEAR = frozenset(
    f"tirx.{name}" for name in ("erf", "exp", "log", "pow", "sigmoid", "tanh", "sin", "cos")
)


@dataclass(frozen=True)
class Stage:
    """One block: positions of its iterators of extent above one."""

    block: Block
    rows: tuple[int, ...]
    """In the order of the first reduction's."""
    columns: tuple[int, ...]

    @property
    def column_extents(self) -> tuple[int, ...]:
        return tuple(self.block.iters[i].extent for i in self.columns)


@dataclass(frozen=True)
class Stages:
    """All blocks of a function, in program order."""

    stages: tuple[Stage, ...]
    row_extents: tuple[int, ...]
    lane_row: int
    """The row iterator along which memory is contiguous; -1 where the columns are."""
    lane_bits: int
    """Of the widest element type."""

    @property
    def num_columns(self) -> int:
        """The longest row."""
        return max(prod(stage.column_extents) for stage in self.stages)

    @property
    def work(self) -> int:
        """Element operations of all stages; a call of exp or the like counts eight."""
        return sum(
            prod(it.extent for it in stage.block.iters) * (8 if is_dear(stage.block) else 1)
            for stage in self.stages
        )


def calls(block: Block) -> frozenset[str]:
    """Names of the operators that `block` calls."""
    found: list[Call] = []
    tvm_ffi.structural_walk(block.body, [(Call, found.append)], order="pre")
    return frozenset(str(call.op.name) for call in found if isinstance(call.op, Op))


def is_dear(block: Block) -> bool:
    """Whether an element costs many instructions."""
    return bool(calls(block) & _DEAR)


def element_bits(block: Block) -> int:
    """Of the widest element type that `block` reads or writes."""
    return max(type_bits(access.dtype) for access in (*block.loads, *block.stores))


def lane_bits(block: Block, at: int) -> int:
    """Of the widest element that differs along iterator `at`: an index is one for all lanes."""
    accesses = [access for access in (*block.loads, *block.stores) if at in access.iters]
    return max((type_bits(access.dtype) for access in accesses), default=element_bits(block))


def type_bits(dtype: str) -> int:
    """Of an element in memory."""
    return 8 if dtype == "bool" else int(tvm.DataType(dtype).bits)


def start(
    func: tirx.PrimFunc, *, keep_padding: bool = False
) -> tuple[tvm.s_tir.Schedule, Analysis] | None:
    """A schedule of `func` with everything cheap inlined, and what it then is made of."""
    found = _started(func, keep_padding)
    return (found[0].copy(), found[1]) if found else None


@lru_cache(maxsize=64)
def _started(func: tirx.PrimFunc, keep_padding: bool) -> tuple[tvm.s_tir.Schedule, Analysis] | None:
    """Worked out once a function: five rules begin so."""
    if (analysis := analyse(func)) is None or not all(b.stores for b in analysis.blocks):
        return None
    sch = tvm.s_tir.Schedule(IRModule({"main": func}))
    analysis = without_last_copy(sch, analysis)
    while analysis is not None:
        block = next((b for b in analysis.blocks if _inlinable(b, analysis, keep_padding)), None)
        if block is None:
            return sch, analysis
        sch.compute_inline(sch.get_sblock(block.name))
        analysis = analyse(sch.mod["main"])
    return None


def without_last_copy(sch: tvm.s_tir.Schedule, analysis: Analysis) -> Analysis | None:
    """What is left where the last block only laid out anew what another computed."""
    if any(_is_last_copy(block, analysis) and _is_undone(sch, block) for block in analysis.blocks):
        return analyse(sch.mod["main"])
    return analysis


def _is_last_copy(block: Block, analysis: Analysis) -> bool:
    """Whether it only lays out anew, by a reshape maybe, what another block computed."""
    made = analysis.producers(block)
    if len(made) != 1 or not made[0].is_injective or len(analysis.consumers(made[0])) != 1:
        return False
    is_last = block.is_injective and analysis.is_output(block) and is_copy(block)
    return is_last and _size(made[0]) == _size(block) and not block.loads[0].is_linear


def _is_undone(sch: tvm.s_tir.Schedule, block: Block) -> bool:
    """Computes what the copy reads where the copy writes it, as far as TVM sees through it."""
    try:
        sch.reverse_compute_inline(sch.get_sblock(block.name))
    except TVM_ERRORS:  # Rows picked by index, or turned round.
        return False
    return True


def _inlinable(block: Block, analysis: Analysis, keep_padding: bool) -> bool:
    if not block.is_injective or analysis.is_output(block):
        return False
    consumers = analysis.consumers(block)
    if keep_padding and any(c.is_reduction for c in consumers) and _is_padding(block):
        return False
    if not is_dear(block):
        return not _is_row_value(block, consumers)
    return len(consumers) == 1 and _size(consumers[0]) <= _size(block)


def _is_padding(block: Block) -> bool:
    return "tirx.if_then_else" in calls(block)


def _size(block: Block) -> int:
    return prod(it.extent for it in block.iters)


def _is_row_value(block: Block, consumers: tuple[Block, ...]) -> bool:
    """Computed once a row, read by every column: not worth repeating, unless it is a mere copy."""
    is_wider = any(_size(c) > _size(block) for c in consumers)
    return is_wider and not is_copy(block)


def find_stages(analysis: Analysis) -> Stages | None:
    """How the blocks share rows; None where they do not."""
    first = next((b for b in analysis.blocks if b.is_reduction), None)
    if first is None or not all(_is_plain(b) and not _is_cut(b) for b in analysis.blocks):
        return None
    rows = tuple(i for i, it in enumerate(first.iters) if it.kind == "S" and it.extent > 1)
    extents = tuple(first.iters[i].extent for i in rows)
    labels: dict[str, tuple[int, ...]] = {}
    stages = []
    for block in analysis.blocks:
        found = _rows_of(block, extents, labels, frozenset(analysis.params))
        if found is None:
            return None
        stages.append(_stage(block, found))
        for store in block.stores:
            labels[store.buffer] = _labels(store, found)
    lane_row = _lane_row(stages[analysis.blocks.index(first)])
    bits = max(element_bits(block) for block in analysis.blocks)
    return Stages(tuple(stages), extents, lane_row, bits) if lane_row is not None else None


def _is_plain(block: Block) -> bool:
    """A reduction of whole elements: no window, no product of two tensors of fewer dimensions."""
    if not block.is_reduction:
        return block.is_injective
    wanted = {i for i, it in enumerate(block.iters) if it.extent > 1}
    scattered = [load for load in block.loads if not _is_run(block, load)]
    if any(mixes_kinds(block, index) for load in scattered for index in load.indices):
        return False
    return all(it.kind in "SR" for it in block.iters) and any(
        wanted <= set(load.iters) for load in block.loads
    )


def _is_cut(block: Block) -> bool:
    """Whether it takes other values from a place on, as a running sum does.

    TVM's LoopPartition, which gives tails loops of their own, would split vectors there.
    """
    return any(not _loads(one.condition) for one in selects(block))


def _loads(expr: object) -> list[TensorLoad]:
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(expr, [(TensorLoad, found.append)], order="pre")
    return found


def selects(block: Block) -> list[tirx.Select]:
    """Every choice between two values in the block."""
    found: list[tirx.Select] = []
    tvm_ffi.structural_walk(block.body, [(tirx.Select, found.append)], order="pre")
    return found


def _is_run(block: Block, load: Access) -> bool:
    """Whether what a result is reduced from lies in one piece: part of a dimension, no window."""
    wide = [(at, it) for at, it in enumerate(block.iters) if it.extent > 1]
    length = 1
    for at, it in reversed(wide):
        if it.kind == "R":
            if load.stride(at) != length:
                return False
            length *= it.extent
    return load.is_linear and all(
        load.stride(at) % length == 0 for at, it in wide if it.kind == "S"
    )


def mixes_kinds(block: Block, index: Index) -> bool:
    """Whether a spatial and a reduction iterator meet in `index`: a window."""
    return len({block.iters[i].kind for i in index.iters if block.iters[i].extent > 1}) > 1


def _stage(block: Block, rows: tuple[int, ...]) -> Stage:
    wide = (i for i, it in enumerate(block.iters) if it.extent > 1)
    return Stage(block, rows, tuple(i for i in wide if i not in rows))


def _rows_of(
    block: Block,
    extents: tuple[int, ...],
    labels: Mapping[str, tuple[int, ...]],
    params: frozenset[str],
) -> tuple[int, ...] | None:
    """Positions of the row iterators, found through the buffers that earlier blocks wrote."""
    known: dict[int, int] = {}
    for load in block.loads:
        if load.buffer in labels:
            for index, label in zip(load.indices, labels[load.buffer], strict=True):
                if label < 0:
                    continue
                at = index.iters[0] if index.iters else -1
                if not index.is_iter(at) or known.setdefault(label, at) != at:
                    return None
        elif load.buffer not in params:
            return None
    spatial = [i for i, it in enumerate(block.iters) if it.kind == "S" and it.extent > 1]
    if not known:
        known = dict(enumerate(spatial[: len(extents)]))
    rows = tuple(known.get(i, -1) for i in range(len(extents)))
    same = all(
        i in spatial and block.iters[i].extent == n for i, n in zip(rows, extents, strict=True)
    )
    return rows if same and len(set(rows)) == len(rows) else None


def _labels(store: Access, rows: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        next((label for label, at in enumerate(rows) if index.is_iter(at)), -1)
        for index in store.indices
    )


def _lane_row(stage: Stage) -> int | None:
    """-1 where the last column is contiguous, a row's position where that is; else None."""
    block = stage.block
    load = max(block.loads, key=lambda load: sum(block.iters[i].extent > 1 for i in load.iters))
    if not stage.columns or load.stride(stage.columns[-1]) == 1:
        return -1
    return next((n for n, at in enumerate(stage.rows) if load.stride(at) == 1), None)
