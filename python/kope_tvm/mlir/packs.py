# SPDX-License-Identifier: Apache-2.0
"""Copies of parameters that a schedule makes for one of its operations: packed operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from kope_tvm.mlir.nest import Loop, Stage
from kope_tvm.mlir.place import Copy, Place
from kope_tvm.mlir.rests import PLANES
from kope_tvm.mlir.script_text import Handle, Pack, ScriptText
from kope_tvm.mlir.tuned_op import TunedOp

_FLOAT = "float32"
_LEAST_USES = 4
"""Of a packed operand by the tiles of its reader: fewer do not pay for the copy."""


@dataclass
class Packs:
    """Packs operands in a script where a schedule copies them."""

    func: tirx.PrimFunc
    text: ScriptText
    where: Handle
    """The function."""
    is_wanted: bool
    said: set[str] = field(default_factory=set)
    """The blocks whose copies the script makes."""

    def noted(self, nodes: Sequence[Loop | Stage], root: TunedOp, place: Place) -> Place:
        """With the copies among these nests: they are made once all loops under them are there."""
        if not self.is_wanted or root.source.op in PLANES or root.partials:
            return place
        found = dict(place.copies)
        for block in _alone(nodes):
            operand = self._operand(block, root)
            if operand is not None:
                found[block] = Copy(operand, place.loops, place.sizes)
        return replace(place, copies=tuple(found.items()))

    def written(self, root: TunedOp, place: Place) -> Place:
        """The operation with its copies taken out of the loops under them."""
        reads = root.source.reads
        for block, copy in place.copies:
            shared = [dim for dim in root.source.spatial if dim not in reads[copy.operand]]
            uses = prod(copy.sizes[dim] // place.sizes[dim] for dim in shared)
            if place.is_even and place.loops > copy.loops and uses >= _LEAST_USES:
                loops = place.loops - copy.loops
                pack = Pack(copy.operand, len(reads) + 1, len(place.sizes), loops)
                place = replace(place, handle=self.text.pack(place.handle, self.where, pack))
                self.said.add(block)
        return place

    def _operand(self, copy: str, reader: TunedOp) -> int | None:
        """Which input of an operation the block `copy` stands for.

        None where it is no copy of a parameter, where inputs cannot be told apart by the dimensions
        that index them, or where operands are no float32.
        """
        made, read = self._blocks.get(copy), self._blocks.get(reader.stage.block)
        if made is None or read is None or not _is_copy(made, self.func):
            return None
        pairs = zip(read.iter_vars, reader.source.dims, strict=False)
        dims = _indexed_by(made.body.buffer, read, {hash(it.var): dim for it, dim in pairs})
        if not dims or not _is_float(read) or reader.source.reads.count(dims) != 1:
            return None
        return reader.source.reads.index(dims)

    @cached_property
    def _blocks(self) -> dict[str, Any]:
        """By name."""
        found: list[Any] = []
        tvm_ffi.structural_walk(self.func.body, [(s_tir.SBlock, found.append)], order="pre")
        return {str(block.name_hint): block for block in found}


def _alone(nodes: Sequence[Loop | Stage]) -> list[str]:
    """The blocks of nests that hold one block each."""
    stages = [list(node.stages()) if isinstance(node, Loop) else [node] for node in nodes]
    return [each[0].block for each in stages if len(each) == 1]


def _is_copy(block: Any, func: tirx.PrimFunc) -> bool:
    given = getattr(block.body, "value", None)
    params = list(func.params)
    return isinstance(given, ir.TensorLoad) and any(given.source.same_as(each) for each in params)


def _is_float(block: Any) -> bool:
    return all(str(each.source.dtype) == _FLOAT for each in (*block.reads, *block.writes))


def _indexed_by(buffer: Any, block: Any, iters: Mapping[int, int]) -> frozenset[int]:
    """Dimensions of the operation that an element of the buffer is read by."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(block.body, [(ir.TensorLoad, loads.append)], order="pre")
    found: list[Any] = []
    for load in loads:
        if load.source.same_as(buffer):
            for index in load.indices:
                tvm_ffi.structural_walk(index, [(tirx.Var, found.append)], order="pre")
    return frozenset(iters[hash(var)] for var in found if hash(var) in iters)
