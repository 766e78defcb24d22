# SPDX-License-Identifier: Apache-2.0
"""4-bit constants of a model, as bytes: TVM takes no array of 4-bit elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from kope_tvm.onnx_ops.registration import all_nodes

_WIDER = {
    onnx.TensorProto.INT4: np.dtype("int8"),
    onnx.TensorProto.UINT4: np.dtype("uint8"),
}
_READER = "DequantizeLinear"
"""The one operator that means the same by a wider constant."""


def widen_int4(graph: onnx.GraphProto) -> None:
    """Make every 4-bit initializer and `Constant` one of bytes, in place."""
    for tensor in _tensors(graph):
        if tensor.data_type in _WIDER:
            array = onnx.numpy_helper.to_array(tensor).astype(_WIDER[tensor.data_type])
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def int4_refusals(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, str]]:
    """Nodes that would read 4-bit elements in another way, and what is wrong with each."""
    narrow = {tensor.name for tensor in _initializers(graph) if tensor.data_type in _WIDER}
    for node in all_nodes(graph):
        if any(attribute.t.data_type in _WIDER for attribute in node.attribute):
            narrow.update(node.output)
    runtime = {edge.name for edge in graph.input if edge.type.tensor_type.elem_type in _WIDER}
    for node in all_nodes(graph):
        for name in node.input:
            if name in narrow and node.op_type.rpartition("::")[2] != _READER:
                yield node, f"input {name} of 4-bit elements is not supported"
            if name in runtime:
                yield node, f"input {name} of 4-bit elements is no constant: not supported"


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from _initializers(graph)
    for node in all_nodes(graph):
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _initializers(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _initializers(subgraph)
