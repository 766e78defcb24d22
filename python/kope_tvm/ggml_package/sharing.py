# SPDX-License-Identifier: Apache-2.0
"""Whether threads can compute a function together, and kernels for pointers of any alignment."""

from __future__ import annotations

import json
from typing import Any, cast

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, For, ForKind
from tvm_ffi import structural_walk

from kope_tvm.c_package.plan import CFunction, Plan
from kope_tvm.extraction import written_params


def is_shared(function: CFunction, plan: Plan) -> bool:
    """Whether all it writes to its output is in one parallel loop, which is the last.

    Each thread then computes what comes before by itself, and its share of the loop: none waits.
    """
    if len(function.steps) != 1 or function.arena_bytes:
        return False
    func = plan.kernels[function.steps[0].kernel]
    last = _last_statement(func)
    outputs = [func.params[place] for place in written_params(func)]
    return (
        isinstance(last, For)
        and last.kind == ForKind.PARALLEL
        and _num_parallel(func.body) == 1
        and _num_stores(func.body, outputs) == _num_stores(last, outputs)
    )


def _last_statement(func: tirx.PrimFunc) -> Any:
    found: Any = func.body
    while True:
        if hasattr(found, "block"):
            found = found.block.body
        elif isinstance(found, SBlock):
            found = found.body
        elif isinstance(found, tirx.SeqStmt):
            found = found.seq[-1]
        else:
            return found


def _num_parallel(body: Any) -> int:
    kinds: list[Any] = []
    structural_walk(body, (For, lambda loop: kinds.append(loop.kind)))
    return kinds.count(ForKind.PARALLEL)


def _num_stores(body: Any, buffers: list[Any]) -> int:
    stores: list[BufferStore] = []
    structural_walk(body, (BufferStore, stores.append))
    return sum(any(store.buffer.same_as(each) for each in buffers) for store in stores)


def unaligned(kernels: IRModule) -> IRModule:
    """The same, for tensors that begin at any element, as those of a memory-mapped file may.

    Every buffer's type is a node of the module's graph, which says how it is aligned.
    """
    graph = json.loads(tvm.ir.save_json(kernels))
    nodes = graph["nodes"]
    for node in nodes:
        if node["type"] == "tirx.BufferType":
            element = tvm_ffi.dtype(nodes[node["data"]["dtype"]]["data"]["dtype"])
            node["data"]["data_alignment"] = max(element.bits // 8, 1)
    return cast(IRModule, tvm.ir.load_json(json.dumps(graph)))
