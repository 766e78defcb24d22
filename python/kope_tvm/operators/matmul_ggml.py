# SPDX-License-Identifier: Apache-2.0
"""Matrix products with weights in ggml's blocks, with activations as they are or in int8."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from tvm import te, tirx

from kope_tvm.errors import ModelError
from kope_tvm.ggml_blocks import (
    HALF,
    LARGEST_INT8,
    Q4_0,
    Q8_0,
    SCALE_BYTES,
    WEIGHTS,
    BlockFormat,
    half_value,
)
from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

_FLOAT = 1
"""ONNX's number of float32."""
_Compute = Callable[[Parameters, te.Tensor, te.Tensor], te.Tensor]


def _inputs_of(blocks: BlockFormat) -> Callable[[Parameters], tuple[TensorSpec, ...]]:
    def inputs(p: Parameters) -> tuple[TensorSpec, ...]:
        shape = (p["n"], _num_blocks(p), blocks.num_bytes)
        return (TensorSpec("A", p.shape("m k"), p.dtype), TensorSpec("B", shape, "uint8"))

    return inputs


def _num_blocks(p: Parameters) -> int:
    if p["k"] % WEIGHTS:
        raise ModelError(f"k={p['k']} is not a multiple of {WEIGHTS}, the weights of a block")
    return p["k"] // WEIGHTS


def _scales(p: Parameters, packed: te.Tensor) -> te.Tensor:
    return te.compute(
        (p["n"], _num_blocks(p)),
        lambda j, b: half_value(packed[j, b, 0], packed[j, b, 1]),
        name="scales",
    )


def _weights(p: Parameters, packed: te.Tensor, blocks: BlockFormat) -> te.Tensor:
    """The int32 numbers as `[n, blocks, halves, 16]`."""
    return te.compute(
        (p["n"], _num_blocks(p), 2, HALF),
        lambda j, b, h, t: blocks.value(packed[j, b, blocks.position(h, t)], h),
        name="unpack",
    )


def _axes(p: Parameters) -> tuple[te.IterVar, ...]:
    extents = {"b": _num_blocks(p), "h": 2, "t": HALF}
    return tuple(te.reduce_axis((0, extent), name=name) for name, extent in extents.items())


def _float_compute(blocks: BlockFormat) -> _Compute:
    def compute(p: Parameters, left: te.Tensor, packed: te.Tensor) -> te.Tensor:
        scales, weights = _scales(p, packed), _weights(p, packed, blocks)
        b, h, t = _axes(p)

        def product(i: te.IterVar, j: te.IterVar) -> te.Tensor:
            weight = weights[j, b, h, t].astype("float32") * scales[j, b]
            return te.sum(left[i, b * WEIGHTS + h * HALF + t] * weight, axis=[b, h, t])

        return te.compute(p.shape("m n"), product, name="matmul")

    return compute


def _int8_compute(blocks: BlockFormat) -> _Compute:
    """As ggml does; but it rounds the scale of 32 activations to half precision."""

    def compute(p: Parameters, left: te.Tensor, packed: te.Tensor) -> te.Tensor:
        scales, weights = _scales(p, packed), _weights(p, packed, blocks)
        largest, numbers = _quantized(p, left)
        b, h, t = _axes(p)

        def product(i: te.IterVar, j: te.IterVar) -> te.Tensor:
            exact = numbers[i, b, h, t].astype("int32") * weights[j, b, h, t]
            scale = largest[i, b] * scales[j, b]
            return te.sum(exact.astype("float32") * scale, axis=[b, h, t])

        return te.compute(p.shape("m n"), product, name="matmul")

    return compute


def _quantized(p: Parameters, left: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Scales `[m, blocks]`, and int8 numbers `[m, blocks, halves, 16]`."""
    rows, num_blocks = p["m"], _num_blocks(p)
    at = te.reduce_axis((0, WEIGHTS), name="at")
    largest = te.compute(
        (rows, num_blocks),
        lambda i, b: te.max(te.abs(left[i, b * WEIGHTS + at]), axis=at),
        name="largest",
    )
    scales = te.compute(
        (rows, num_blocks),
        lambda i, b: largest[i, b] * tirx.const(1 / LARGEST_INT8, "float32"),
        name="row_scales",
    )

    def number(i: te.IterVar, b: te.IterVar, h: te.IterVar, t: te.IterVar) -> te.Tensor:
        inverse = te.if_then_else(largest[i, b] > 0, LARGEST_INT8 / largest[i, b], 0.0)
        return (
            te.nearbyint(left[i, b * WEIGHTS + h * HALF + t] * inverse)
            .astype("int32")
            .astype("int8")
        )

    return scales, te.compute((rows, num_blocks, 2, HALF), number, name="quantize")


def _evaluate(
    p: Parameters, left: np.ndarray, packed: np.ndarray, blocks: BlockFormat
) -> np.ndarray:
    return np.asarray(left @ blocks.decoded(packed).T)


def _rounded(left: np.ndarray) -> np.ndarray:
    """What the int8 numbers of the rows stand for."""
    groups = left.reshape(len(left), -1, WEIGHTS)
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    safe = np.where(largest > 0, largest, 1)
    numbers = np.rint(groups * (np.float32(LARGEST_INT8) / safe))
    return np.asarray((numbers * (largest * np.float32(1 / LARGEST_INT8))).reshape(left.shape))


def _weight_nodes(p: Parameters, blocks: BlockFormat) -> Iterator[Node]:
    """Constants and nodes that make `weights` [n, k] of the bytes `B`."""
    ends = {"zero": 0, "one": 1, "two": SCALE_BYTES, "all": blocks.num_bytes, "last": 2}
    for name, value in ends.items():
        yield Node("Constant", (), name, {"value": np.array([value], np.int64)})
    for name, begin, end in (("low", "zero", "one"), ("high", "one", "two")):
        yield Node("Slice", ("B", begin, end, "last"), f"{name}_byte")
        yield Node("Cast", (f"{name}_byte",), name, {"to": _FLOAT})
    yield from _scale_nodes()
    yield Node("Slice", ("B", "two", "all", "last"), "stored")
    yield from _number_nodes(blocks)
    yield Node("Mul", ("numbers", "scale"), "scaled")
    yield Node("Constant", (), "shape", {"value": np.array(p.shape("n k"), np.int64)})
    yield Node("Reshape", ("scaled", "shape"), "weights")


def _scale_nodes() -> Iterator[Node]:
    """`half_value`, in floats: sign, five bits of exponent, ten of fraction."""
    floats = {"f0": 0, "f1": 1, "f2": 2, "f4": 4, "f25": 25, "f31": 31, "f32": 32, "f128": 128}
    for name, value in {**floats, "f256": 256, "f1024": 1024}.items():
        yield Node("Constant", (), name, {"value": np.array(value, np.float32)})
    yield from _divided("high", "f128", "sign", "unsigned")
    yield from _divided("unsigned", "f4", "exponent", "upper")
    yield Node("Mul", ("upper", "f256"), "upper_bits")
    yield Node("Add", ("upper_bits", "low"), "fraction")
    yield Node("Min", ("exponent", "f1"), "is_normal")
    yield Node("Mul", ("is_normal", "f1024"), "hidden")
    yield Node("Add", ("fraction", "hidden"), "significand")
    yield Node("Max", ("exponent", "f1"), "raised")
    yield Node("Sub", ("raised", "f25"), "shift")
    yield Node("Pow", ("f2", "shift"), "power")
    yield Node("Mul", ("sign", "f2"), "twice")
    yield Node("Sub", ("f1", "twice"), "factor")
    yield Node("Mul", ("significand", "power"), "size")
    yield Node("Mul", ("size", "factor"), "number")
    yield Node("Less", ("exponent", "f31"), "is_finite")
    yield Node("Where", ("is_finite", "number", "f0"), "scale")


def _divided(given: str, by: str, quotient: str, rest: str) -> Iterator[Node]:
    yield Node("Div", (given, by), f"{quotient}_exact")
    yield Node("Floor", (f"{quotient}_exact",), quotient)
    yield Node("Mul", (quotient, by), f"{quotient}_whole")
    yield Node("Sub", (given, f"{quotient}_whole"), rest)


def _number_nodes(blocks: BlockFormat) -> Iterator[Node]:
    """Of `stored`, the `numbers` that the scale multiplies."""
    yield Node("Cast", ("stored",), "bytes", {"to": _FLOAT})
    yield Node("Constant", (), "offset", {"value": np.array(1 << (blocks.bits - 1), np.float32)})
    if blocks.bits == 4:
        yield Node("Constant", (), "f16", {"value": np.array(16, np.float32)})
        yield from _divided("bytes", "f16", "upper_nibble", "lower_nibble")
        yield Node("Concat", ("lower_nibble", "upper_nibble"), "unsigned_numbers", {"axis": 2})
        yield Node("Sub", ("unsigned_numbers", "offset"), "numbers")
        return
    yield Node("Constant", (), "f_all", {"value": np.array(256, np.float32)})
    yield Node("Less", ("bytes", "offset"), "is_positive")
    yield Node("Sub", ("bytes", "f_all"), "wrapped")
    yield Node("Where", ("is_positive", "bytes", "wrapped"), "numbers")


def _row_nodes(p: Parameters) -> Iterator[Node]:
    """Constants and nodes that make `rows` [m, k] of `A`, rounded to int8 a block."""
    grouped = np.array((p["m"], _num_blocks(p), WEIGHTS), np.int64)
    yield Node("Constant", (), "grouped", {"value": grouped})
    yield Node("Constant", (), "plain", {"value": np.array(p.shape("m k"), np.int64)})
    for name, value in {"f127": LARGEST_INT8, "f127th": 1 / LARGEST_INT8}.items():
        yield Node("Constant", (), name, {"value": np.array(value, np.float32)})
    yield Node("Reshape", ("A", "grouped"), "groups")
    yield Node("Abs", ("groups",), "sizes")
    yield Node("ReduceMax", ("sizes",), "largest", {"axes": [2], "keepdims": 1})
    yield Node("Greater", ("largest", "f0"), "is_some")
    yield Node("Div", ("f127", "largest"), "quotient")
    yield Node("Where", ("is_some", "quotient", "f0"), "inverse")
    yield Node("Mul", ("groups", "inverse"), "fitted")
    yield Node("Round", ("fitted",), "whole")
    yield Node("Mul", ("largest", "f127th"), "row_scale")
    yield Node("Mul", ("whole", "row_scale"), "rounded")
    yield Node("Reshape", ("rounded", "plain"), "rows")


def _operator(blocks: BlockFormat, *, is_exact: bool) -> Operator:
    what = blocks.name.upper()

    def nodes(p: Parameters) -> tuple[Node, ...]:
        made = [*_weight_nodes(p, blocks), *(_row_nodes(p) if is_exact else ())]
        rows = "rows" if is_exact else "A"
        return (
            *made,
            Node("Transpose", ("weights",), "columns", {"perm": [1, 0]}),
            Node("MatMul", (rows, "columns"), "out"),
        )

    def evaluate(p: Parameters, left: np.ndarray, packed: np.ndarray) -> np.ndarray:
        return _evaluate(p, _rounded(left) if is_exact else left, packed, blocks)

    rows = "A[m, k] in int8 with a scale each 32 along k" if is_exact else "A[m, k]"
    return Operator(
        name=f"matmul_{blocks.name}{'_q8_0' if is_exact else ''}",
        summary=f"C[m, n] = {rows} @ dequantized(B)[n, k]^T, B in ggml's {what}",
        sizes={"m": 1, "n": 1024, "k": 1024},
        inputs=_inputs_of(blocks),
        compute=_int8_compute(blocks) if is_exact else _float_compute(blocks),
        nodes=nodes,
        evaluate=evaluate,
        weights=frozenset({"B"}),
        dtypes=("float32",),
    )


OPERATORS = tuple(
    _operator(blocks, is_exact=is_exact) for blocks in (Q4_0, Q8_0) for is_exact in (False, True)
)
