# SPDX-License-Identifier: Apache-2.0
"""What a rewritten function owes the original: parameters, inputs, pure code, little memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import tvm
from tvm_ffi import structural_walk

from kope_tvm.outcome import Verdict, refuse
from kope_tvm.rewrite.constructs import PURE_OPS

GATE = "rewrite"
MAX_ALLOC_BYTES = 1 << 30
"""Of all buffers that a rewrite makes for itself, taken together."""


def first_breach(func: tvm.tirx.PrimFunc, original: tvm.tirx.PrimFunc) -> Verdict | None:
    """The first promise that a parsed rewrite breaks; None where it keeps them all."""
    return _signature(func, original) or _body(func, original)


def _signature(func: tvm.tirx.PrimFunc, original: tvm.tirx.PrimFunc) -> Verdict | None:
    given, expected = [_shown(p) for p in func.params], [_shown(p) for p in original.params]
    if len(given) != len(expected):
        wanted = ", ".join(f"{p.name} {each}" for p, each in zip(original.params, expected))  # noqa: B905
        reason = f"{len(given)} parameters given, {len(expected)} expected: {wanted}"
        return refuse(GATE, "E_SIGNATURE", reason)
    for number, (one, other) in enumerate(zip(given, expected, strict=True)):
        if one != other:
            name = func.params[number].name
            reason = f"parameter {number} ({name}): {one} given, {other} expected"
            return refuse(GATE, "E_SIGNATURE", reason)
    return None


def _shown(param: Any) -> str:
    if isinstance(param, tvm.tirx.Buffer):
        extents = ", ".join(str(getattr(extent, "value", extent)) for extent in param.shape)
        return f"{param.dtype}[{extents}]"
    return str(getattr(param, "dtype", param.ty))


def _body(func: tvm.tirx.PrimFunc, original: tvm.tirx.PrimFunc) -> Verdict | None:
    if type(func.body).__name__ != "SBlockRealize" or not _blocks(func):
        reason = "no block: put each computation into `with T.sblock(name):` with its axes"
        return refuse(GATE, "E_SCRIPT", reason)
    foreign = next((name for name in _calls(func) if name not in PURE_OPS), None)
    if foreign:
        reason = f"the body calls {foreign}; only pure operators of TVM are called"
        return refuse(GATE, "E_SCRIPT", reason, suspicious=True)
    written, expected = _written(func), _written(original)
    for number, param in enumerate(func.params):
        if number in written - expected:
            reason = f"writes the input {param.name} ({number})"
            return refuse(GATE, "E_INPUT_WRITTEN", reason, suspicious=True)
        if number in expected - written:
            return refuse(GATE, "E_SCRIPT", f"never writes the output {param.name} ({number})")
    num_bytes = sum(map(_bytes, _allocated(func)))
    if num_bytes > MAX_ALLOC_BYTES:
        reason = f"allocates {num_bytes} bytes; at most {MAX_ALLOC_BYTES} are allowed"
        return refuse(GATE, "E_SCRIPT", reason)
    return None


def _nodes(func: tvm.tirx.PrimFunc) -> list[Any]:
    found: list[Any] = []
    structural_walk(func.body, found.append)
    return found


def _blocks(func: tvm.tirx.PrimFunc) -> list[Any]:
    """The blocks below the root."""
    found = [node for node in _nodes(func) if isinstance(node, tvm.s_tir.SBlock)]
    return [block for block in found if not block.same_as(func.body.block)]


def _calls(func: tvm.tirx.PrimFunc) -> Iterator[str]:
    for node in _nodes(func):
        if isinstance(node, tvm.ir.Call):
            yield str(getattr(node.op, "name", node.op))


def _written(func: tvm.tirx.PrimFunc) -> set[int]:
    """Numbers of the parameters that are stored to."""
    stores = [node for node in _nodes(func) if isinstance(node, tvm.tirx.BufferStore)]
    return {
        number
        for number, param in enumerate(func.params)
        if any(store.buffer.same_as(param) for store in stores)
    }


def _allocated(func: tvm.tirx.PrimFunc) -> Iterator[Any]:
    for node in _nodes(func):
        if isinstance(node, tvm.s_tir.SBlock):
            yield from node.alloc_buffers


def _bytes(buffer: Any) -> int:
    extents = [int(extent) for extent in buffer.shape]
    bits = tvm.runtime.DataType(str(buffer.dtype)).bits
    return reduce(int.__mul__, extents, (int(bits) + 7) // 8)
