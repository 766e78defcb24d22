# SPDX-License-Identifier: Apache-2.0
"""Element types and static shapes of MLIR, in TVM's words."""

from __future__ import annotations

from kope_tvm.mlir.bindings import ir
from kope_tvm.mlir.unimportable import NoTypeError

_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    # MLIR leaves its width to the machine; TVM's loops count in 64 bits at most.
    "index": "int64",
}
"""MLIR's integers have no sign, its operations do."""


def dtype_of(kind: ir.Type) -> str:
    """The dtype of a scalar or of a tensor's elements; raises NoTypeError."""
    element = ir.ShapedType(kind).element_type if isinstance(kind, ir.ShapedType) else kind
    if str(element) not in _DTYPES:
        raise NoTypeError(f"element type {element}; known: {', '.join(_DTYPES)}")
    return _DTYPES[str(element)]


def shape_of(kind: ir.Type) -> tuple[int, ...]:
    """The extents of a tensor, () of a scalar; raises NoTypeError where one is not static."""
    if isinstance(kind, ir.MemRefType | ir.UnrankedTensorType | ir.VectorType):
        raise NoTypeError(f"{kind}; expected a tensor with a static shape")
    if not isinstance(kind, ir.RankedTensorType):
        return ()
    if not kind.has_static_shape:
        raise NoTypeError(f"{kind} has a dynamic dimension; expected a static shape")
    return tuple(kind.shape)
