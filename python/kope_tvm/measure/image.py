# SPDX-License-Identifier: Apache-2.0
"""The tensors every candidate of a task shares: of each case, inputs and what is expected.

They lie one after another in an anonymous memory file: nothing is left on disk whoever dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kope_tvm.measure.job import Argument, Case
from kope_tvm.measure.policy import Array

_ALIGNMENT = 64
_F_ADD_SEALS = 1033
_F_SEAL_SHRINK_GROW_WRITE = 2 | 4 | 8


@dataclass(frozen=True)
class Tensors:
    """Of one case, one array per parameter that has one; None elsewhere."""

    before: tuple[Array | None, ...]
    """Contents before the call, of parameters that are read."""
    after: tuple[Array | None, ...]
    """Contents expected after the call, of parameters that are written."""
    other: tuple[Array | None, ...]
    """What is right too: the untuned function's output where it is far from the truth."""


def create() -> int:
    """A file descriptor of an empty image."""
    return os.memfd_create("kope-image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal(image_fd: int) -> None:
    """Make it read-only for good: a candidate's native code inherits the descriptor."""
    fcntl.fcntl(image_fd, _F_ADD_SEALS, _F_SEAL_SHRINK_GROW_WRITE)


class Writer:
    """Stores cases one after another."""

    def __init__(self, image_fd: int) -> None:
        self._image_fd = image_fd
        self.num_bytes = 0

    def add(self, tensors: Tensors) -> None:
        """Store one case."""
        for array in (*tensors.before, *tensors.after, *tensors.other):
            if array is not None and array.size:
                raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                _write_all(self._image_fd, memoryview(raw.data), self.num_bytes)
                self.num_bytes = _aligned(self.num_bytes + raw.nbytes)
        os.ftruncate(self._image_fd, max(self.num_bytes, 1))


def read(
    image_fd: int,
    arguments: Sequence[Argument],
    dtypes: Sequence[np.dtype | None],
    cases: Sequence[Case],
) -> list[Tensors]:
    """The tensors of a `Writer`, without copying."""
    data = mmap.mmap(image_fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    reader = _Reader(np.frombuffer(data, dtype=np.uint8), arguments, dtypes)
    filled = [argument.filled for argument in arguments]
    written = [argument.written for argument in arguments]
    return [
        Tensors(reader.take(filled), reader.take(written), reader.take(case.has_other))
        for case in cases
    ]


class _Reader:
    """Walks through an image in the order it was written in."""

    def __init__(
        self, buffer: Array, arguments: Sequence[Argument], dtypes: Sequence[np.dtype | None]
    ) -> None:
        self._buffer, self._arguments, self._dtypes = buffer, arguments, dtypes
        self._offset = 0

    def take(self, present: Sequence[bool]) -> tuple[Array | None, ...]:
        rows = zip(self._arguments, self._dtypes, present, strict=True)
        return tuple(
            self._array(argument.shape, dtype) if is_there and dtype is not None else None
            for argument, dtype, is_there in rows
        )

    def _array(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = self._buffer[self._offset : self._offset + nbytes]
        self._offset = _aligned(self._offset + nbytes)
        return raw.view(dtype).reshape(shape)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _write_all(image_fd: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(image_fd, data, offset)
        data, offset = data[done:], offset + done
