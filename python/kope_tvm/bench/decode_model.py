# SPDX-License-Identifier: Apache-2.0
"""A model of one MatMulNBits whose weights are constants, as ONNX Runtime repacks them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_BLOCK = 32
_OPSET, _IR_VERSION = 17, 9


def matmul_nbits(
    rows: int, columns: int, depth: int, *, accuracy_level: int, seed: int = 0
) -> bytes:
    """`Y[rows, columns] = A[rows, depth] @ dequantized weights`, 4 bits and a scale each 32."""
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 256, (columns, depth // _BLOCK, _BLOCK // 2), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.1, columns * depth // _BLOCK).astype(np.float32)
    facts = {"K": depth, "N": columns, "bits": 4, "block_size": _BLOCK}
    node = helper.make_node(
        "MatMulNBits",
        ["A", "B", "scales"],
        ["Y"],
        domain="com.microsoft",
        accuracy_level=accuracy_level,
        **facts,
    )
    edges = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("A", [rows, depth]), ("Y", [rows, columns]))
    ]
    constants = [numpy_helper.from_array(packed, "B"), numpy_helper.from_array(scales, "scales")]
    graph = helper.make_graph([node], "product", edges[:1], edges[1:], constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
