# SPDX-License-Identifier: Apache-2.0
"""Integer products of a model, on unsigned operands: the same numbers, exact in ONNX Runtime.

On x86 without VNNI its kernels for a signed operand add pairs of products in 16 bits, which
saturate (ONNX Runtime's documentation, "Quantize ONNX models", on U8S8): seen to be off by a
third of the largest result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
from onnx import TensorProto, helper

_OPERANDS = {
    "MatMulInteger": ((0, 2), (1, 3)),
    "ConvInteger": ((0, 2), (1, 3)),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "QLinearConv": ((0, 2), (3, 5)),
}
"""Where each kind of node has its operands and their zero points."""
_OUTPUT_ZERO = 7
"""Where those that make integers of eight bits have the output's zero point."""
_SHIFT = 128


def unsigned(model: bytes) -> bytes:
    """The model with `x - z` as `(x + 128) - (z + 128)` wherever x is int8 in a product."""
    proto = onnx.load_from_string(model)
    if not any(node.op_type in _OPERANDS for node in proto.graph.node):
        return model
    graph = onnx.shape_inference.infer_shapes(proto).graph
    types = {one.name: one.data_type for one in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        types[info.name] = info.type.tensor_type.elem_type
    shifted = _Shifted(types)
    for node in proto.graph.node:
        shifted.take(node)
    del proto.graph.node[:]
    proto.graph.node.extend(shifted.nodes)
    return bytes(proto.SerializeToString())


@dataclass
class _Shifted:
    """The nodes so far."""

    types: dict[str, int]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    num_names: int = 0

    def take(self, node: onnx.NodeProto) -> None:
        """A node, behind what brings its operands."""
        operands = _OPERANDS.get(node.op_type, ())
        signed = [each for each in operands if self._is_signed(node.input[each[0]])]
        for value, zero in signed:
            node.input.extend([""] * (zero + 1 - len(node.input)))
            node.input[value] = self._moved(node.input[value], _SHIFT, TensorProto.UINT8)
            node.input[zero] = self._zero(node.input[zero])
        if signed and len(node.input) > _OUTPUT_ZERO and self._is_signed(node.output[0]):
            name, node.output[0] = node.output[0], f"{node.output[0]}_unsigned"
            node.input[_OUTPUT_ZERO] = self._zero(node.input[_OUTPUT_ZERO])
            self.nodes.append(node)
            self._moved(node.output[0], -_SHIFT, TensorProto.INT8, name)
        else:
            self.nodes.append(node)

    def _is_signed(self, name: str) -> bool:
        return bool(self.types.get(name) == TensorProto.INT8)

    def _zero(self, name: str) -> str:
        if name:
            return self._moved(name, _SHIFT, TensorProto.UINT8)
        return self._constant(helper.make_tensor("", TensorProto.UINT8, [], [_SHIFT]))

    def _moved(self, name: str, shift: int, to: int, made: str = "") -> str:
        by = self._constant(helper.make_tensor("", TensorProto.INT32, [], [shift]))
        wide, sum_ = self._fresh(), self._fresh()
        made = made or self._fresh()
        self.nodes += [
            helper.make_node("Cast", [name], [wide], to=TensorProto.INT32),
            helper.make_node("Add", [wide, by], [sum_]),
            helper.make_node("Cast", [sum_], [made], to=to),
        ]
        return made

    def _constant(self, tensor: onnx.TensorProto) -> str:
        name = self._fresh()
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def _fresh(self) -> str:
        self.num_names += 1
        return f"unsigned_{self.num_names}"
