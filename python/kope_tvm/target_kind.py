# SPDX-License-Identifier: Apache-2.0
"""Which kinds of TVM target run where their functions are called, and which on a device beside."""

from __future__ import annotations

_ON_HOST = frozenset({"llvm", "c"})


def is_on_host(kind: object) -> bool:
    """Whether functions of a kind of target run on the machine's own cores."""
    return str(kind) in _ON_HOST
