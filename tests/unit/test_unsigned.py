# SPDX-License-Identifier: Apache-2.0
"""A model with its integer products on unsigned operands computes the same."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from kope_tvm.onnx_ops.unsigned import unsigned
from kope_tvm.onnx_reference import OnnxReference

RNG = np.random.default_rng(1)
A = RNG.integers(-128, 128, (4, 64)).astype(np.int8)
B = RNG.integers(-128, 128, (64, 8)).astype(np.int8)
SCALE = np.float32(0.02)
ZERO, OTHER = np.int8(-7), np.int8(3)


def model(
    kind: str, weights: dict[str, np.ndarray | np.generic], inputs: list[str], to: int
) -> bytes:
    edge = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, ["y"])],
        "graph",
        [edge("a", TensorProto.INT8, A.shape)],
        [edge("y", to, (4, 8))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(made.SerializeToString())


INTEGER = model("MatMulInteger", {"b": B}, ["a", "b"], TensorProto.INT32)
SHIFTED = model(
    "MatMulInteger", {"b": B, "z": ZERO, "w": OTHER}, ["a", "b", "z", "w"], TensorProto.INT32
)
QLINEAR = model(
    "QLinearMatMul",
    {"b": B, "s": SCALE, "z": ZERO, "w": OTHER},
    ["a", "s", "z", "b", "s", "w", "s", "z"],
    TensorProto.INT8,
)


@pytest.mark.parametrize("given", [INTEGER, SHIFTED, QLINEAR], ids=["plain", "zeros", "qlinear"])
def test_the_same_numbers(given: bytes) -> None:
    made = unsigned(given)
    assert made != given
    (right,) = ReferenceEvaluator(onnx.load_from_string(given)).run(None, {"a": A})
    (found,) = ReferenceEvaluator(onnx.load_from_string(made)).run(None, {"a": A})
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)
    (theirs,) = OnnxReference(made, 1, optimised=False).run({"a": A})
    np.testing.assert_array_equal(theirs, right)


def test_other_models_stay_as_they_are() -> None:
    given = model("Identity", {}, ["a"], TensorProto.INT8)
    assert unsigned(given) is given
