# SPDX-License-Identifier: Apache-2.0
"""Which buffers a function hands on by their address, to be read or written out of TVM's sight."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm_ffi
from tvm.ir import Call, Op
from tvm.tirx import DeclBuffer

_DATA = "tirx.buffer_data"
_ELEMENT = "tirx.address_of"


def handed_on(body: Any) -> set[Any]:
    """Those whose address is asked for, other than to give the same memory a second name."""
    calls: list[Any] = []
    names: list[Any] = []
    tvm_ffi.structural_walk(body, [(Call, calls.append), (DeclBuffer, names.append)], order="pre")
    asked = Counter(buffer for call in calls if (buffer := _whose(call)) is not None)
    second = [(name.buffer, buffer) for name in names if (buffer := _whose(name.data)) is not None]
    asked.subtract(buffer for _, buffer in second)
    found = {buffer for buffer, times in asked.items() if times > 0}
    for name, buffer in reversed(second):
        if name in found:
            found.add(buffer)
    return found


def _whose(expr: Any) -> Any:
    """The buffer whose address an expression is, if it is one."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return None
    if expr.op.name == _DATA:
        return expr.args[0]
    if expr.op.name == _ELEMENT:
        return getattr(expr.args[0], "source", None)
    return None
