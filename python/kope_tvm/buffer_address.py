# SPDX-License-Identifier: Apache-2.0
"""Which buffers a function gives to calls, to be read or written out of TVM's sight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm.ir import Call, Op, TensorLoad, Var
from tvm.tirx import DeclBuffer

_DATA = "tirx.buffer_data"
_ELEMENT = "tirx.address_of"


def given(body: Any) -> Counter[Any]:
    """How many calls have each variable, a buffer among them, as an argument of their own.

    A second name of a buffer's memory is one too: `decl_buffer` asks for its address.
    """
    calls: list[Any] = []
    tvm_ffi.structural_walk(body, [(Call, calls.append)], order="pre")
    return Counter(one for call in calls for one in _arguments(call))


def handed_on(body: Any) -> set[Any]:
    """Those that are given to more than a second name of theirs."""
    names: list[Any] = []
    tvm_ffi.structural_walk(body, [(DeclBuffer, names.append)], order="pre")
    left = given(body)
    second = [(name.buffer, whose) for name in names for whose in _named(name.data)]
    left.subtract(whose for _, whose in second)
    found = {buffer for buffer, times in left.items() if times > 0}
    for name, whose in reversed(second):
        if name in found:
            found.add(whose)
    return found


def _arguments(call: Any) -> Iterator[Any]:
    for argument in call.args:
        if isinstance(argument, Var):
            yield argument
        elif isinstance(argument, TensorLoad) and _is(call, _ELEMENT):
            yield argument.source


def _named(data: Any) -> Iterator[Any]:
    """The buffer whose memory it is, where that is all it says."""
    if isinstance(data, Call) and _is(data, _DATA):
        yield data.args[0]


def _is(call: Any, name: str) -> bool:
    return isinstance(call.op, Op) and call.op.name == name
