# SPDX-License-Identifier: Apache-2.0
"""Where a candidate's tensors lie: on this machine between guard words and pages without access.

`[no access][guard words][tensor][guard words][no access]`: a write just past an end is seen in the
words, one further off kills the process.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from kope_tvm.measure.job import Argument
from kope_tvm.measure.policy import Array

_ALIGNMENT = 64
_GUARD_BYTE = 0xA5
_CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""DLPack knows no numpy of bfloat16: integers of the same size carry the bytes."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Slot:
    """One tensor in host memory."""

    value: Any
    view: Array
    before: Array
    after: Array
    """The guard words on either side."""

    def fill(self, contents: Array) -> None:
        """Put the contents there, or one element everywhere."""
        self.view[...] = contents

    def contents(self) -> Array:
        """What it holds; another call changes it."""
        return self.view

    def overrun(self) -> str:
        """Where a guard word was overwritten; empty where none was."""
        for words, side in ((self.before, "before the start"), (self.after, "past the end")):
            touched = np.flatnonzero(words != _GUARD_BYTE)
            if touched.size:
                at = words.size - int(touched[-1]) if words is self.before else int(touched[0]) + 1
                return f"{at} bytes {side}"
        return ""


@dataclass(frozen=True)
class DeviceSlot:
    """One tensor in the memory of a device, with nothing around it."""

    value: Any

    def fill(self, contents: Array) -> None:
        """Put the contents there, or one element everywhere."""
        spread = np.broadcast_to(contents, self.value.shape)
        if spread.size:
            self.value.copyfrom(np.ascontiguousarray(spread))

    def contents(self) -> Array:
        """A copy of what it holds."""
        held: Array = self.value.numpy()
        return held

    def overrun(self) -> str:
        return ""


def slot(argument: Argument, dtype: np.dtype[Any], device: Any, *, is_host: bool) -> Any:
    """Memory of its own for one tensor."""
    if not is_host:
        return DeviceSlot(tvm.runtime.empty(argument.shape, argument.dtype, device))
    nbytes = int(np.prod(argument.shape, dtype=np.int64)) * dtype.itemsize
    before, raw, after = _guarded(nbytes)
    view = raw.view(dtype).reshape(argument.shape)
    return Slot(_tensor(raw, argument, dtype), view, before, after)


def _guarded(nbytes: int) -> tuple[Array, Array, Array]:
    """The words before, the bytes, the words after."""
    page = mmap.PAGESIZE
    room = -(-(nbytes + 2 * _ALIGNMENT) // page) * page
    memory = np.frombuffer(
        mmap.mmap(-1, room + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8
    )
    for at in (0, page + room):
        if _libc.mprotect(ctypes.c_void_p(memory.ctypes.data + at), page, 0):
            raise OSError(ctypes.get_errno(), "mprotect of a guard page")
    inside = memory[page : page + room]
    start = (room - nbytes - _ALIGNMENT) // _ALIGNMENT * _ALIGNMENT
    before, after = inside[:start], inside[start + nbytes :]
    before[:], after[:] = _GUARD_BYTE, _GUARD_BYTE
    return before, inside[start : start + nbytes], after


def _tensor(raw: Array, argument: Argument, dtype: np.dtype[Any]) -> Any:
    carried = tvm.runtime.from_dlpack(raw.view(_CARRIERS[dtype.itemsize]).reshape(argument.shape))
    return carried._create_view(argument.shape, argument.dtype)


class ArgumentSet:
    """A call's tensors, at addresses of their own."""

    def __init__(
        self,
        arguments: Sequence[Argument],
        dtypes: Sequence[np.dtype[Any] | None],
        scalars: Sequence[Any],
        device: Any,
        *,
        is_host: bool,
    ) -> None:
        self.slots = [
            None if dtype is None else slot(argument, dtype, device, is_host=is_host)
            for argument, dtype in zip(arguments, dtypes, strict=True)
        ]
        self.values = [
            scalar if held is None else held.value
            for held, scalar in zip(self.slots, scalars, strict=True)
        ]
