# SPDX-License-Identifier: Apache-2.0
"""ONNX in and out; with `onnx_ops` the only place to import onnx and TVM's importer of it.

A model is bound to static shapes, folded, checked node by node against TVM's table of
converters and ours, and only then imported: so every operator that cannot be is named at once.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import TracebackType

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from tvm import IRModule, relax, tirx
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from kope_tvm import onnx_reference
from kope_tvm.errors import ModelError, UsageError
from kope_tvm.native_stderr import GATHER, without_lines
from kope_tvm.onnx_ops.int4 import int4_refusals, widen_int4
from kope_tvm.onnx_ops.registration import (
    SEPARATOR,
    all_nodes,
    is_ours,
    qualified_name,
    refusals,
    registered,
    take_over,
)
from kope_tvm.operators.operator import Node
from kope_tvm.tensor_spec import TensorSpec

_OPSET = 17
_IR_VERSION = 8
_DOMAINS = ("", "ai.onnx", "com.microsoft")
_INLINE = frozenset({"If", "Constant"})
"""Handled by TVM's importer outside its table."""


@dataclass(frozen=True)
class ImportedOnnx:
    """An ONNX model as Relax, its parameters bound as constants."""

    mod: IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    bound: bytes
    """The model with static shapes and nothing else changed: the reference."""


def import_onnx(path: Path, dims: Mapping[str, int]) -> ImportedOnnx:
    """Read `path`, bind its dynamic dimensions, fold it and hand it to TVM."""
    model = _read(path)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    inputs = _bind(model, dims, path)
    bound = model.SerializeToString()
    _refuse_uses(model, path)
    folded = _fold(model, bound, path)
    _refuse_unsupported(folded, path)
    widen_int4(folded.graph)
    take_over(folded)
    with without_lines(GATHER), registered():
        mod = relax.get_pipeline("zero")(_convert(folded, path))
    return ImportedOnnx(mod, inputs, _outputs(model, mod), bound)


def graph_bytes(
    name: str, inputs: Sequence[TensorSpec], nodes: Sequence[Node], output: TensorSpec
) -> bytes:
    """Return the ONNX model of `nodes`, whose last one makes the output."""
    edges = [_edge(spec.name, spec) for spec in inputs]
    graph = onnx.helper.make_graph(
        [_node(node) for node in nodes], name, edges, [_edge(nodes[-1].output, output)]
    )
    domains = {name.rpartition("::")[0] for name in (node.op_type for node in nodes)} - {""}
    opsets = [
        onnx.helper.make_opsetid("", _OPSET),
        *(onnx.helper.make_opsetid(domain, 1) for domain in sorted(domains)),
    ]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _edge(name: str, spec: TensorSpec) -> onnx.ValueInfoProto:
    elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
    return onnx.helper.make_tensor_value_info(name, elem_type, spec.shape)


def _node(node: Node) -> onnx.NodeProto:
    attributes = {
        key: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in node.attributes.items()
    }
    domain, _, op_type = node.op_type.rpartition("::")
    outputs = [node.output, *node.more_outputs]
    return onnx.helper.make_node(op_type, node.inputs, outputs, domain=domain, **attributes)


def _read(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file, or one of its weight files: {error}") from error
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{path}: not an ONNX model or damaged: {error}") from error
    if not model.graph.node:
        raise ModelError(f"{path}: not an ONNX model or damaged: it has no nodes")
    return model


def _bind(model: onnx.ModelProto, dims: Mapping[str, int], path: Path) -> tuple[TensorSpec, ...]:
    """Make every input's shape static, in the model itself."""
    unused = set(dims)
    open_dims: list[str] = []
    weights = {tensor.name for tensor in model.graph.initializer}
    edges = [edge for edge in model.graph.input if edge.name not in weights]
    for edge in edges:
        if not edge.type.HasField("tensor_type") or not edge.type.tensor_type.HasField("shape"):
            raise ModelError(f"{path}: input {edge.name!r} is not a tensor of known rank")
        for axis, dim in enumerate(edge.type.tensor_type.shape.dim):
            if _is_static(dim):
                continue
            names = _dim_names(edge.name, axis, dim)
            given = next((name for name in names if name in dims), None)
            if given is None:
                open_dims.append(f"input {edge.name!r} axis {axis} (--dim {names[-1]}=N)")
            else:
                unused.discard(given)
                dim.dim_value = _positive(given, dims[given])
    if open_dims:
        raise ModelError(
            f"{path}: dynamic dimensions without a size: {'; '.join(open_dims)}; "
            "give each its size with that flag"
        )
    if unused:
        raise UsageError(_unknown_dims(path, unused, edges))
    return tuple(_static_spec(edge) for edge in edges)


def _unknown_dims(path: Path, unused: set[str], edges: Sequence[onnx.ValueInfoProto]) -> str:
    shown = "; ".join(str(_static_spec(edge)) for edge in edges)
    return (
        f"{path}: --dim {', '.join(sorted(unused))}: no input has such a dynamic dimension; "
        f"with the other flags its inputs are {shown}"
    )


def _is_static(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return bool(dim.HasField("dim_value")) and int(dim.dim_value) >= 0


def _dim_names(edge: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> tuple[str, ...]:
    """What may stand before `=` for one dimension; the last is what an error suggests."""
    named = bool(dim.dim_param) and dim.dim_param != "?"
    by_axis = f"{edge}.{axis}"
    return (by_axis, dim.dim_param) if named else (by_axis,)


def _positive(name: str, size: int) -> int:
    if size < 1:
        raise UsageError(f"--dim {name}={size}: expected a size of at least 1")
    return size


def _static_spec(edge: onnx.ValueInfoProto) -> TensorSpec:
    tensor = edge.type.tensor_type
    shape = tuple(int(dim.dim_value) for dim in tensor.shape.dim)
    return TensorSpec(edge.name, shape, _dtype_name(tensor.elem_type))


def _dtype_name(elem_type: int) -> str:
    return str(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


def _fold(model: onnx.ModelProto, bound: bytes, path: Path) -> onnx.ModelProto:
    """Fold through ONNX Runtime; where it knows an operator less than TVM does, say which."""
    try:
        return onnx.load_from_string(onnx_reference.fold_shapes(bound))
    except ModelError as error:
        _refuse_unsupported(model, path)
        raise ModelError(f"{path}: {error}") from error


def _refuse_unsupported(model: onnx.ModelProto, path: Path) -> None:
    converters = frozenset(_get_convert_map())
    missing: dict[str, list[str]] = defaultdict(list)
    for node in all_nodes(model.graph):
        if not _is_supported(node, converters):
            missing[_operator_name(node)].append(_node_name(node))
    if missing:
        listed = "; ".join(_listed(name, nodes) for name, nodes in sorted(missing.items()))
        raise ModelError(f"{path}: TVM's ONNX importer has no converter for {listed}")


def _refuse_uses(model: onnx.ModelProto, path: Path) -> None:
    """Name every use of an operator of ours beyond what we cover.

    Asked of the model as given: folding spells out attributes that ONNX Runtime has defaults for.
    """
    found = [(node, reason) for node in all_nodes(model.graph) for reason in refusals(node)]
    found += int4_refusals(model.graph)
    if found:
        reasons = [f"{_place_of(node)}: {reason}" for node, reason in found]
        raise ModelError(f"{path}: {'; '.join(reasons)}")


def _is_supported(node: onnx.NodeProto, converters: frozenset[str]) -> bool:
    if is_ours(node):
        return True
    return node.domain in _DOMAINS and (node.op_type in converters or node.op_type in _INLINE)


def _listed(name: str, nodes: Sequence[str], *, shown: int = 4) -> str:
    more = f" and {len(nodes) - shown} more" if len(nodes) > shown else ""
    return f"{name} x{len(nodes)} ({', '.join(nodes[:shown])}{more})"


def _operator_name(node: onnx.NodeProto) -> str:
    return qualified_name(node).replace(SEPARATOR, ".").removeprefix("ai.onnx.")


def _place_of(node: onnx.NodeProto) -> str:
    return f"{_operator_name(node)} node {_node_name(node)}"


def _node_name(node: onnx.NodeProto) -> str:
    return node.name or f"the node of output {node.output[0]}"


def _convert(model: onnx.ModelProto, path: Path) -> IRModule:
    """Import; TVM prints to stdout on failure, where only our own output belongs."""
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return from_onnx(model, keep_params_in_input=False)
    except Exception as error:
        raise ModelError(f"{path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What failed at which node; converters of ours say it in words of their own."""
    node = _node_at(error.__traceback__)
    if isinstance(error, ModelError) and node is not None:
        return f"{_place_of(node)}: {error}"
    place = f" at {_place_of(node)}" if node is not None else ""
    return f"TVM's ONNX importer failed{place}: {_first_line(error)}"


def _node_at(trace: TracebackType | None) -> onnx.NodeProto | None:
    """Find the node that TVM's importer was at, in its own frames."""
    node: onnx.NodeProto | None = None
    while trace is not None:
        found = trace.tb_frame.f_locals.get("node")
        node = found if isinstance(found, onnx.NodeProto) else node
        trace = trace.tb_next
    return node


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0]}"


def _outputs(model: onnx.ModelProto, mod: IRModule) -> tuple[TensorSpec, ...]:
    """The model's names with the shapes that Relax inferred."""
    result = mod["main"].ret_ty
    types = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    names = [edge.name for edge in model.graph.output]
    return tuple(_spec(name, each) for name, each in zip(names, types, strict=True))


def _spec(name: str, tensor: relax.TensorType) -> TensorSpec:
    """-1 stands for an extent that depends on the input's values."""
    values = tensor.shape.values if tensor.shape is not None else [None] * tensor.ndim
    shape = tuple(int(each) if isinstance(each, tirx.IntImm) else -1 for each in values)
    return TensorSpec(name, shape, str(tensor.dtype))
