# SPDX-License-Identifier: Apache-2.0
"""Copies of parameters that a schedule makes for one of its operations: packed operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from kope_tvm.mlir.nest import Loop, Stage
from kope_tvm.mlir.tuned_op import TunedOp

_FLOAT = "float32"


@dataclass(frozen=True)
class Packs:
    """The copies of one function."""

    func: tirx.PrimFunc

    def operand(self, copy: str, reader: TunedOp) -> int | None:
        """Which input of an operation the block `copy` stands for.

        None where it is no copy of a parameter, where inputs cannot be told apart by the
        dimensions that index them, or where operands are no float32.
        """
        blocks = _blocks(self.func)
        made, read = blocks.get(copy), blocks.get(reader.stage.block)
        if made is None or read is None or not _is_copy(made, self.func):
            return None
        iters = {
            hash(it.var): dim for it, dim in zip(read.iter_vars, reader.source.dims, strict=False)
        }
        dims = _indexed_by(made.body.buffer, read, iters)
        if not dims or not _is_float(read) or reader.source.reads.count(dims) != 1:
            return None
        return reader.source.reads.index(dims)


def copies_among(nodes: Sequence[Loop | Stage]) -> list[str]:
    """The blocks of nests that hold one block each."""
    stages = [list(node.stages()) if isinstance(node, Loop) else [node] for node in nodes]
    return [each[0].block for each in stages if len(each) == 1]


def _blocks(func: tirx.PrimFunc) -> dict[str, Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(s_tir.SBlock, found.append)], order="pre")
    return {str(block.name_hint): block for block in found}


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
