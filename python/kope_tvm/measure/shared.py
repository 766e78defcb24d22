# SPDX-License-Identifier: Apache-2.0
"""What all children of a pool that measures on a board share."""

from __future__ import annotations

import contextlib
import tempfile

from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.place import Place
from kope_tvm.measure.job import Board


class Shared:
    """The board as children are told of it, and a folder that goes with the pool."""

    def __init__(self, place: Place) -> None:
        # Children are killed at any time: what they leave there is removed at the end.
        self._folder = tempfile.TemporaryDirectory(prefix="kope-", ignore_cleanup_errors=True)
        linker = find_cross_compiler().cxx
        self.board = Board(place.host, place.port, place.key, linker, self._folder.name)

    def close(self) -> None:
        """Remove the folder."""
        with contextlib.suppress(OSError):
            self._folder.cleanup()
