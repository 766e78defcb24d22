# SPDX-License-Identifier: Apache-2.0
"""An ONNX model of one node, an operator of a library of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from kope_tvm.c_package.plan import Param
from kope_tvm.ort_package.edges import Operator, element_type

_OPSET = 17
_IR_VERSION = 8


def one_node_model(operator: Operator, made_by: Sequence[str]) -> bytes:
    """The file's content, the same for the same operator.

    A graph's output that is an input of it already stays that, and the node's goes nowhere.
    """
    taken = {operator.edge_name(each) for each in operator.inputs}
    given = [operator.edge_name(each) for each in operator.outputs]
    node = onnx.helper.make_node(
        operator.name,
        [operator.edge_name(each) for each in operator.inputs],
        [f"{name}/unused" if name in taken else name for name in given],
        name=operator.name,
        domain=operator.domain,
    )
    graph = onnx.helper.make_graph(
        [node],
        operator.name,
        [_edge(operator, each) for each in operator.inputs],
        [_edge(operator, each) for each in operator.outputs],
    )
    opsets = [onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid(operator.domain, 1)]
    model = onnx.helper.make_model(
        graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="kope-tvm"
    )
    onnx.helper.set_model_props(model, {"made_by": "\n".join(made_by)})
    return bytes(model.SerializeToString(deterministic=True))


def _edge(operator: Operator, param: Param) -> Any:
    return onnx.helper.make_tensor_value_info(
        operator.edge_name(param), element_type(param), param.spec.shape
    )
