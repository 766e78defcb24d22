# SPDX-License-Identifier: Apache-2.0
"""The kernels of a scheduled function, by what each asks of a multiprocessor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir import transform as passes

_MATRIX_SCOPES = ("wmma.", "m16n8k8.", "warp")


@dataclass(frozen=True)
class Kernel:
    """One launch."""

    blocks: int
    threads: int
    """A block."""
    static_bytes: int
    """Shared by a block, as the function declares them; aliases are not folded."""
    dynamic_bytes: int
    local_bytes: int
    """Of a thread, registers or not."""
    uses_matrix_units: bool


def kernels_of(func: tirx.PrimFunc) -> tuple[Kernel, ...]:
    """Of a function whose sizes are constant, in the order in which they run.

    Raises what TVM raises where it cannot lower the function.
    """
    return tuple(_kernel(nest) for nest in _nests(_lowered(func).body))


def _lowered(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """As far as TVM's own pipeline, until buffers have their final sizes."""
    steps = (
        passes.CanonicalizeLoop(),
        passes.LowerCrossThreadReduction(),
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.LiftThreadBinding(),
        passes.ManifestSharedMemoryLocalStage(),
        passes.CompactBufferAllocation(),
        passes.LowerAutoCopy(),
        passes.UnifyThreadBinding(),
    )
    mod = IRModule({"main": func})
    return tvm.ir.transform.Sequential(steps)(mod)["main"]


def _nests(body: Any) -> list[Any]:
    """What stands side by side below the root."""
    while isinstance(body, SBlockRealize):
        body = body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _kernel(nest: Any) -> Kernel:
    loops: list[tirx.For] = []
    blocks: list[SBlock] = []
    callbacks = [(tirx.For, loops.append), (SBlock, blocks.append)]
    tvm_ffi.structural_walk(nest, callbacks, order="pre")
    extents = {
        str(loop.thread_binding.thread_tag): int(loop.extent)
        for loop in loops
        if loop.thread_binding is not None
    }
    buffers = [buffer for block in blocks for buffer in block.alloc_buffers]
    scopes = {str(buffer.scope()) for buffer in buffers}
    return Kernel(
        blocks=_product(extents, "blockIdx"),
        threads=_product(extents, "threadIdx"),
        static_bytes=_bytes(one for one in buffers if str(one.scope()) == "shared"),
        dynamic_bytes=_bytes(one for one in buffers if str(one.scope()) == "shared.dyn"),
        local_bytes=_bytes(one for one in buffers if str(one.scope()) == "local"),
        uses_matrix_units=any(scope.startswith(_MATRIX_SCOPES) for scope in scopes),
    )


def _product(extents: dict[str, int], axis: str) -> int:
    return prod(extent for tag, extent in extents.items() if tag.startswith(axis))


def _bytes(buffers: Iterable[Any]) -> int:
    return sum(
        prod(int(size) for size in buffer.shape) * -(-tvm.DataType(str(buffer.dtype)).bits // 8)
        for buffer in buffers
    )
