# SPDX-License-Identifier: Apache-2.0
"""What a function takes and writes, and arrays to call it with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, PrimFunc

from kope_tvm.errors import KopeError
from kope_tvm.measure.job import Argument, Use


def entry(mod: tvm.IRModule) -> tuple[str, PrimFunc]:
    """The function to measure: `main`, or the only one."""
    functions = {var.name_hint: func for var, func in mod.functions_items()}
    primitive = {name: func for name, func in functions.items() if isinstance(func, PrimFunc)}
    name = "main" if "main" in primitive else next(iter(primitive), "")
    if not name or (name != "main" and len(primitive) > 1):
        raise KopeError(
            f"cannot tell what to measure among the functions {sorted(functions)}; "
            "expected a PrimFunc named 'main', or a single PrimFunc"
        )
    return name, primitive[name]


def arguments(func: PrimFunc) -> tuple[Argument, ...]:
    """What the function does with each of its parameters."""
    use = _Usage(func)
    return tuple(_argument(param, use) for param in func.params)


class _Usage:
    """Which buffers a function writes, updates in place, and addresses others with."""

    def __init__(self, func: PrimFunc) -> None:
        self.written: set[Any] = set()
        self.updated: set[Any] = set()
        self.limits: dict[Any, int] = {}
        entries = [
            (SBlock, self._block),
            (BufferStore, self._store),
            (TensorLoad, self._load),
        ]
        tvm_ffi.structural_walk(func.body, entries)

    def _block(self, block: SBlock) -> None:
        written = {region.source for region in block.writes}
        self.written |= written
        # A reduction's init block starts its output; without one, what is there is read.
        if block.init is None and not isinstance(block.body, SBlock):
            self.updated |= written & set(_loaded_here(block.body))

    def _store(self, store: BufferStore) -> None:
        self.written.add(store.buffer)
        self._addresses(store.buffer, store.indices)

    def _load(self, load: TensorLoad) -> None:
        self._addresses(load.source, load.indices)

    def _addresses(self, buffer: Any, indices: Sequence[Any]) -> None:
        for extent, index in zip(buffer.shape, indices, strict=True):
            if not isinstance(extent, int | tvm.tirx.IntImm):
                continue
            for source in _loads(index):
                self.limits[source] = min(int(extent), self.limits.get(source, int(extent)))


def _loads(root: Any) -> list[Any]:
    found: list[Any] = []

    def visit(load: TensorLoad) -> None:
        found.append(load.source)

    tvm_ffi.structural_walk(root, (TensorLoad, visit))
    return found


def _loaded_here(body: Any) -> list[Any]:
    """Buffers that statements of this block load, nested blocks apart."""
    nested: list[Any] = []
    tvm_ffi.structural_walk(body, (SBlock, nested.append))
    return [] if nested else _loads(body)


def _argument(param: Any, use: _Usage) -> Argument:
    if not isinstance(param.ty, tvm.tirx.BufferType):
        return Argument(param.name, str(param.ty), (), Use.SCALAR)
    if not all(isinstance(extent, int | tvm.tirx.IntImm) for extent in param.shape):
        raise KopeError(
            f"parameter {param.name} has the symbolic shape {list(param.shape)}; "
            "measuring needs every dimension: bind them before tuning"
        )
    shape = tuple(int(extent) for extent in param.shape)
    how = Use.WRITE if param in use.written else Use.READ
    if param in use.written and param in use.updated:
        how = Use.UPDATE
    return Argument(param.name, str(param.dtype), shape, how, use.limits.get(param, 0))


def host_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of TVM's own host arrays."""
    if dtype.startswith(("int4", "uint4", "float4_", "float6_")):
        raise KopeError(f"cannot measure a parameter of dtype {dtype}: it has no host arrays")
    found: np.dtype[Any] = tvm.runtime.empty((1,), dtype).numpy().dtype
    return found


def scalar_value(dtype: str) -> int | float:
    """What a scalar parameter is given: an int of 1 is a legal extent, index and divisor."""
    return 0.5 if dtype.startswith(("float", "bfloat")) else 1
