# SPDX-License-Identifier: Apache-2.0
"""Types, constants and index expressions of TIR as MLIR spells them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx

from kope_tvm.mlir.scalars import dtype

_TYPES = {
    **{"float16": "f16", "float32": "f32", "float64": "f64", "bool": "i1"},
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
}
_PACKED = {"float16": ("e", "H"), "float32": ("f", "I"), "float64": ("d", "Q")}
_WAYS = (
    *((tirx.Add, "+"), (tirx.Sub, "-"), (tirx.Mul, "*")),
    *((tirx.FloorDiv, "floordiv"), (tirx.FloorMod, "mod")),
)


class UnsayableError(Exception):
    """Linalg on tensors has no words for it, or this exporter does not know them."""


def type_of(name: str) -> str:
    """`f32` of `float32`."""
    if name not in _TYPES:
        raise UnsayableError(f"linalg has no {name}; it has {', '.join(_TYPES)}")
    return _TYPES[name]


def tensor_type(shape: Sequence[int], dtype: str) -> str:
    """`tensor<4x8xf32>`."""
    if dtype == "bool":
        raise UnsayableError("it keeps booleans in memory, whose stores MLIR 22 does not lower")
    return f"tensor<{'x'.join([*map(str, shape), type_of(dtype)])}>"


def shape_of(buffer: Any) -> tuple[int, ...]:
    """The extents of a buffer, all of them numbers."""
    if not all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
        raise UnsayableError(f"the shape of {buffer.name} is not known")
    return tuple(int(extent) for extent in buffer.shape)


def spelt_number(value: Any) -> str:
    """A constant: floats by their bits, where MLIR's decimals would round."""
    name = dtype(value)
    if isinstance(value, tirx.IntImm):
        return str(int(value)) if name != "bool" else str(bool(value)).lower()
    if not isinstance(value, tirx.FloatImm):
        raise UnsayableError(f"{value} is no number")
    floating, whole = _PACKED[name]
    (bits,) = struct.unpack(f"<{whole}", struct.pack(f"<{floating}", float(value.value)))
    return f"0x{bits:0{2 * struct.calcsize(whole)}X}"


def spelt_index(index: Any, dims: Mapping[Any, int]) -> str:
    """An index as an affine expression of `d0`, `d1`, ...; `dims` numbers the iterators."""
    if isinstance(index, tirx.IntImm):
        return str(int(index))
    if isinstance(index, tirx.Var) and index in dims:
        return f"d{dims[index]}"
    if isinstance(index, tirx.Cast):
        return spelt_index(index.value, dims)
    word = next((word for kind, word in _WAYS if isinstance(index, kind)), None)
    if word is None or (word != "+" and word != "-" and not _has_constant(index)):
        raise UnsayableError(f"it reads at {index}, which is not affine")
    return f"({spelt_index(index.a, dims)} {word} {spelt_index(index.b, dims)})"


def spelt_map(indices: Sequence[Any], dims: Mapping[Any, int]) -> str:
    """`affine_map<(d0, d1) -> (d0, d1)>`."""
    names = ", ".join(f"d{number}" for number in range(len(dims)))
    results = ", ".join(spelt_index(each, dims) for each in indices)
    return f"affine_map<({names}) -> ({results})>"


def _has_constant(index: Any) -> bool:
    is_product = isinstance(index, tirx.Mul)
    return isinstance(index.b, tirx.IntImm) or (is_product and isinstance(index.a, tirx.IntImm))
