# SPDX-License-Identifier: Apache-2.0
"""TVM's lowering with what kope adds to it, in TVM's table of pipelines as `kope`.

TVM 0.27 has buffers on the stack where their scope is `global` and they are of less than 1024
bytes. All others, the tile of sums in scope `local` that rules keep in registers among them, are
asked of the runtime and given back wherever they are used: two calls a tile, and no registers,
since LLVM cannot keep in them what others might know the address of.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod
from typing import Any

import tvm
import tvm_ffi
from tvm import IRModule
from tvm.tirx import AllocBuffer, AttrStmt, IntImm, PrimFunc
from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline
from tvm_ffi import DLDeviceType

from kope_tvm.buffer_address import handed_on
from kope_tvm.known_padding import with_known_padding

NAME = "kope"
STACK_BYTES = 8 << 10
"""Of a buffer on the stack at most."""
_ALL_STACK_BYTES = 32 << 10
"""Of all of a function's: threads may have no more than 128 KiB (musl)."""
_SCOPES = ("global", "local")
_STAYS = "disable_lower_builtin"
"""TVM's annotation of a buffer that is not to be asked of the runtime."""


@tvm.transform.module_pass(opt_level=0, name="kope.KnownPadding")
class KnownPadding:
    """Leave out products with padding that unrolled loops know; see `known_padding`."""

    def transform_module(self, mod: IRModule, _context: Any) -> IRModule:
        """The module with guards that TVM decides when it unrolls."""
        return with_known_padding(mod)


@tvm.transform.module_pass(opt_level=0, name="kope.StackBuffers")
class StackBuffers:
    """Have small buffers of known size on the stack; it goes before `LowerTVMBuiltin`.

    Those whose address is handed on stay with the runtime: TVM tells others of 64 bytes' alignment
    and gives a buffer on the stack 16.
    """

    def transform_module(self, mod: IRModule, _context: Any) -> IRModule:
        """The module with such buffers marked."""
        made = mod.clone()
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc) and _is_of_a_cpu(func):
                made.update_func(var, func.with_body(_marked(func.body)))
        return made


def _is_of_a_cpu(func: PrimFunc) -> bool:
    """Whether LLVM makes the code of it and its buffers lie in the host's memory."""
    target = (func.attrs or {}).get("target")
    attributes: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(AttrStmt, attributes.append)], order="pre")
    devices = [one.value for one in attributes if one.attr_key == "device_type"]
    is_host = all(isinstance(one, IntImm) and int(one) == DLDeviceType.kDLCPU for one in devices)
    return is_host and target is not None and target.kind.name == "llvm"


def _marked(body: Any) -> Any:
    left = _ALL_STACK_BYTES
    handed = handed_on(body)

    def marked(made: Any) -> Any:
        nonlocal left
        size = _num_bytes(made.buffer)
        is_small = 0 < size <= min(left, STACK_BYTES)
        if not is_small or made.buffer.scope() not in _SCOPES or made.buffer in handed:
            return made
        left -= size
        return AllocBuffer(made.buffer, {**made.annotations, _STAYS: IntImm("bool", 1)})

    return tvm_ffi.structural_map(body, [(AllocBuffer, marked)])


def _num_bytes(buffer: Any) -> int:
    """0 where it is not constant."""
    sizes = [int(dim) if isinstance(dim, IntImm) else 0 for dim in buffer.shape]
    return prod(sizes) * ceil(int(buffer.dtype.bits) * int(buffer.dtype.lanes) / 8)


def _pipeline() -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
    lower, finalize_host, finalize_device = get_tir_pipeline("s_tir")

    def finalize() -> Any:
        return tvm.transform.Sequential([StackBuffers(), finalize_host()])

    return tvm.transform.Sequential([KnownPadding(), lower]), finalize, finalize_device


register_tir_pipeline(NAME, _pipeline)
