# SPDX-License-Identifier: Apache-2.0
"""The peer that knows its weights: they are in the model, and the model computes the same."""

from __future__ import annotations

import numpy as np

from kope_tvm.bench.constant_weights import with_constants
from kope_tvm.onnx_reference import OnnxReference
from kope_tvm.operators import known_operators, parse_operator


def test_weights_are_no_inputs_any_more() -> None:
    bound = parse_operator("op:matmul_int8:m=2,n=3,k=4")
    rows, weights = np.full((2, 4), -2, np.int8), np.full((4, 3), -5, np.int8)
    model = with_constants(bound.onnx(), {"B": weights})
    reference = OnnxReference(model, 1, optimised=True)
    assert reference.input_names == ("A",)
    (found,) = reference.run({"A": rows})
    np.testing.assert_array_equal(found, np.full((2, 3), 40, np.int32))


def test_every_weight_is_an_input() -> None:
    for operator in known_operators().values():
        assert operator.weights <= {spec.name for spec in operator.bind().inputs}, operator.name
