# SPDX-License-Identifier: Apache-2.0
"""Keep known chatter of TVM's C++ off the user's terminal; everything else passes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

SCOPES = b"executable.cc"
"""`Warning: Scope Saving:`, a line for every constant of a Relax executable."""
GATHER = b"Fast mode segfaults"
"""A warning of topi's `take` about indices that ONNX itself forbids."""

_STDERR = 2


@contextmanager
def without_lines(*markers: bytes) -> Iterator[None]:
    """Hold back what is written to file descriptor 2, then pass on lines without a marker."""
    sys.stderr.flush()
    terminal = os.dup(_STDERR)
    with TemporaryFile() as held:
        os.dup2(held.fileno(), _STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, _STDERR)
            os.close(terminal)
            held.seek(0)
            kept = [line for line in held if not any(marker in line for marker in markers)]
            for line in kept:
                os.write(_STDERR, line)
