# SPDX-License-Identifier: Apache-2.0
"""Features of a function, worked out in C++ (`passes/tir/features.cc`)."""

from __future__ import annotations

from typing import Any

from kope_tvm.task import Features


def features(node: Any) -> Features:
    """Features of a PrimFunc, or of an IRModule's `main` (else its first PrimFunc by name)."""
    from kope_tvm import _ffi_api  # late: only a call needs the library

    op_class, spatial, reduce, dtypes, *counts, strides = _ffi_api.features(node)
    flops, bytes_moved, num_blocks = counts
    return Features(
        str(op_class),
        tuple(int(extent) for extent in spatial),
        tuple(int(extent) for extent in reduce),
        tuple(str(dtype) for dtype in dtypes),
        float(flops),
        float(bytes_moved),
        int(num_blocks),
        tuple(int(stride) for stride in strides),
    )
