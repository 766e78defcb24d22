# SPDX-License-Identifier: Apache-2.0
"""One ONNX graph of a few nodes: by our importer and compiler, and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tvm import ir, relax

from kope_tvm.comparison import compare
from kope_tvm.compilation import compile_model
from kope_tvm.errors import ModelError
from kope_tvm.model import load_model
from kope_tvm.onnx_reference import OnnxReference, version
from kope_tvm.target import TargetSpec

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
MICROSOFT = "com.microsoft"


@dataclass
class Graph:
    """Nodes with the arrays they take: fed at run time, or constants of the model."""

    folder: Path
    opset: int = 17
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    weights: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def feed(self, name: str, array: np.ndarray) -> str:
        self.feeds[name] = array
        return name

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str = "",
        **attributes: Any,
    ) -> None:
        """Add a node; all of its outputs are outputs of the graph."""
        made = onnx.helper.make_node(
            op_type, inputs, outputs, name=f"the_{outputs[0]}", domain=domain, **attributes
        )
        self.nodes.append(made)
        self.outputs += filter(None, outputs)

    def save(self) -> Path:
        graph = onnx.helper.make_graph(
            self.nodes,
            "graph",
            [_edge(name, array) for name, array in self.feeds.items()],
            [onnx.helper.make_empty_tensor_value_info(name) for name in self.outputs],
            self.weights,
        )
        opsets = [
            onnx.helper.make_opsetid("", self.opset),
            onnx.helper.make_opsetid(MICROSOFT, 1),
        ]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        return path

    def ours(self, target: TargetSpec = HOST) -> tuple[np.ndarray, ...]:
        return compile_model(load_model(self.save()), target).run(self.feeds)

    def theirs(self) -> tuple[np.ndarray, ...]:
        return OnnxReference(self.save(), 1, optimised=False).run(self.feeds)

    def check(self, target: TargetSpec = HOST) -> Mapping[str, np.ndarray]:
        """Our outputs by name, each found equal to ONNX Runtime's."""
        ours, theirs = self.ours(target), self.theirs()
        for name, mine, other in zip(self.outputs, ours, theirs, strict=True):
            found = compare([mine], [other])
            assert found.ok, f"{name}: {found}"
        return dict(zip(self.outputs, ours, strict=True))

    def refusal(self) -> str:
        """What the importer says instead of converting."""
        path = self.save()
        try:
            load_model(path)
        except ModelError as error:
            return str(error).removeprefix(f"{path}: ")
        raise AssertionError("the model was converted")


def onnxruntime_version() -> tuple[int, ...]:
    """Major and minor version of the reference."""
    return tuple(map(int, version().split(".")[:2]))


def constants(func: relax.Function) -> list[np.ndarray]:
    """Every constant of an imported model."""
    found: list[np.ndarray] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, ir.GenericConst):
            found.append(expr.value.numpy())

    relax.analysis.post_order_visit(func, visit)
    return found


def _edge(name: str, array: np.ndarray) -> Any:
    dtype = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, dtype, array.shape)
