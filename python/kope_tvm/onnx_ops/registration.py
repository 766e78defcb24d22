# SPDX-License-Identifier: Apache-2.0
"""Our converters in TVM's importer, for the time of one import.

A node of ours is renamed to its qualified name, so that it can collide neither with TVM's own
converter of that name nor with the operator of the same name in another domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx
from tvm.relax.frontend.onnx import onnx_frontend

from kope_tvm.onnx_ops import known_converters

SEPARATOR = "::"
_STANDARD = "ai.onnx"


def qualified_name(node: onnx.NodeProto) -> str:
    """`domain::Operator`; the standard's domain is `ai.onnx`."""
    if SEPARATOR in node.op_type:
        return str(node.op_type)
    return f"{node.domain or _STANDARD}{SEPARATOR}{node.op_type}"


def is_ours(node: onnx.NodeProto) -> bool:
    """Whether we convert it and not TVM."""
    return qualified_name(node) in known_converters()


def refusals(node: onnx.NodeProto) -> Iterator[str]:
    """What of a node of ours is not supported; nothing of others."""
    if is_ours(node):
        yield from known_converters()[qualified_name(node)].refusals(node)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Subgraphs' nodes included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from all_nodes(subgraph)


def take_over(model: onnx.ModelProto) -> None:
    """Rename the nodes that are ours, in place."""
    for node in all_nodes(model.graph):
        if is_ours(node):
            node.op_type = qualified_name(node)


@contextmanager
def registered() -> Iterator[None]:
    """TVM's table of converters with ours in it."""
    stock = onnx_frontend._get_convert_map
    table = {**stock(), **known_converters()}
    onnx_frontend._get_convert_map = lambda: table
    try:
        yield
    finally:
        onnx_frontend._get_convert_map = stock
