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
_DEVICE_GUARD = 4096
_OVER_RPC = 128
"""TVM adds this to the kind of a device that is reached through a session."""
_NOTHING = np.empty(0, np.uint8)
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
        return _touched(self.before, self.after)


@dataclass(frozen=True)
class DeviceSlot:
    """One tensor in the memory of a device."""

    value: Any
    after: Any = None
    """The guard words past its end; none on a board. Before it there can be none: a function takes
    no tensor that starts within an allocation."""

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
        """Where a guard word was overwritten; empty where none was."""
        return "" if self.after is None else _touched(_NOTHING, self.after.numpy())


def _touched(before: Array, after: Array) -> str:
    for words, side in ((before, "before the start"), (after, "past the end")):
        touched = np.flatnonzero(words != _GUARD_BYTE)
        if touched.size:
            at = words.size - int(touched[-1]) if words is before else int(touched[0]) + 1
            return f"{at} bytes {side}"
    return ""


def slot(argument: Argument, dtype: np.dtype[Any], device: Any, *, is_host: bool) -> Any:
    """Memory of its own for one tensor."""
    nbytes = int(np.prod(argument.shape, dtype=np.int64)) * dtype.itemsize
    if not is_host:
        return _device_slot(argument, nbytes, device)
    before, raw, after = _guarded(nbytes)
    view = raw.view(dtype).reshape(argument.shape)
    return Slot(_tensor(raw, argument, dtype), view, before, after)


def _device_slot(argument: Argument, nbytes: int, device: Any) -> DeviceSlot:
    """With guard words behind it, but for a board: views are not made over RPC."""
    if device.dlpack_device_type() >= _OVER_RPC or not nbytes:
        return DeviceSlot(tvm.runtime.empty(argument.shape, argument.dtype, device))
    raw = tvm.runtime.empty((nbytes + _DEVICE_GUARD,), "uint8", device)
    after = raw._create_view((_DEVICE_GUARD,), "uint8", nbytes)
    after.copyfrom(np.full(_DEVICE_GUARD, _GUARD_BYTE, np.uint8))
    return DeviceSlot(raw._create_view(argument.shape, argument.dtype), after)


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
