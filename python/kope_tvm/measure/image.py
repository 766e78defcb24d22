# SPDX-License-Identifier: Apache-2.0
"""The tensors every candidate of a task shares: inputs and the untuned function's outputs.

They lie one after another in an anonymous memory file: nothing is left on disk whoever dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kope_tvm.measure.compare import Array
from kope_tvm.measure.job import Argument

_ALIGNMENT = 64
_F_ADD_SEALS = 1033
_F_SEAL_SHRINK_GROW_WRITE = 2 | 4 | 8


@dataclass(frozen=True)
class Tensors:
    """One array per parameter that has one; None elsewhere."""

    before: tuple[Array | None, ...]
    """Contents before the call, of parameters that are read."""
    after: tuple[Array | None, ...]
    """Contents after the call, of parameters that are written."""


def create() -> int:
    """A file descriptor of an empty image."""
    return os.memfd_create("kope-image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal(image_fd: int) -> None:
    """Make it read-only for good: a candidate's native code inherits the descriptor."""
    fcntl.fcntl(image_fd, _F_ADD_SEALS, _F_SEAL_SHRINK_GROW_WRITE)


def write(image_fd: int, tensors: Tensors) -> None:
    """Store the tensors."""
    offset = 0
    for array in (*tensors.before, *tensors.after):
        if array is not None and array.size:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            _write_all(image_fd, memoryview(raw.data), offset)
            offset = _aligned(offset + raw.nbytes)
    os.ftruncate(image_fd, max(offset, 1))


def read(image_fd: int, arguments: Sequence[Argument], dtypes: Sequence[np.dtype]) -> Tensors:
    """The tensors of `write`, without copying."""
    data = mmap.mmap(image_fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    buffer = np.frombuffer(data, dtype=np.uint8)
    before, offset = _take(buffer, 0, arguments, dtypes, [arg.filled for arg in arguments])
    after, _ = _take(buffer, offset, arguments, dtypes, [arg.written for arg in arguments])
    return Tensors(before, after)


def _take(
    buffer: Array,
    offset: int,
    arguments: Sequence[Argument],
    dtypes: Sequence[np.dtype],
    present: Sequence[bool],
) -> tuple[tuple[Array | None, ...], int]:
    arrays: list[Array | None] = []
    for argument, dtype, is_there in zip(arguments, dtypes, present, strict=True):
        if not is_there:
            arrays.append(None)
            continue
        nbytes = int(np.prod(argument.shape, dtype=np.int64)) * dtype.itemsize
        arrays.append(buffer[offset : offset + nbytes].view(dtype).reshape(argument.shape))
        offset = _aligned(offset + nbytes)
    return tuple(arrays), offset


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _write_all(image_fd: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(image_fd, data, offset)
        data, offset = data[done:], offset + done
