# SPDX-License-Identifier: Apache-2.0
"""ONNX in: a real model with computed Reshape shapes, dynamic dimensions, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope_tvm.compilation import compile_model, verify_model
from kope_tvm.errors import ModelError, UsageError
from kope_tvm.model import extract_tasks, load_model, refused_functions
from kope_tvm.target import TargetSpec

onnx = pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

pytestmark = pytest.mark.e2e

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


@pytest.fixture(scope="module")
def real_model(project_dir: Path) -> Path:
    path = project_dir / "build" / "demo" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    if not path.is_file():
        pytest.skip(f"needs the model of the package rapidocr-onnxruntime; make {path}")
    return path


def edge(name: str, *shape: int | str, dtype: int = FLOAT) -> Any:
    return onnx.helper.make_tensor_value_info(name, dtype, shape)


def write(
    path: Path,
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    *,
    opset: int = 17,
    domains: tuple[str, ...] = (),
) -> Path:
    graph = onnx.helper.make_graph(nodes, "graph", inputs, outputs)
    opsets = [onnx.helper.make_opsetid("", opset)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in domains]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.save(model, path)
    return path


def relu(path: Path, *shape: int | str) -> Path:
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")
    return write(path, [node], [edge("x", *shape)], [edge("y", *shape)])


def refusal(path: Path, **dims: int) -> str:
    with pytest.raises(UsageError) as caught:
        load_model(path, dims=dims)
    return str(caught.value)


def test_real_model_has_tasks_and_equals_onnx_runtime(real_model: Path) -> None:
    model = load_model(real_model, dims={"x.0": 1, "x.2": 48, "x.3": 192})
    assert [str(spec) for spec in model.inputs] == ["x [1, 3, 48, 192] float32"]
    assert [spec.shape for spec in model.outputs] == [(1, 2)]
    tasks = extract_tasks(model, HOST)
    assert (len(tasks), sum(weight for _, _, weight in tasks)) == (55, 69)
    assert all([var.name_hint for var in mod.get_global_vars()] == ["main"] for _, mod, _ in tasks)
    assert refused_functions(model, HOST) == ()
    check = verify_model(model, compile_model(model, HOST), seeds=2)
    assert check.ok, str(check)
    assert check.onnxruntime is not None
    assert check.onnxruntime.max_rel < 1e-5


def test_open_dimensions_are_listed_with_their_flags(real_model: Path) -> None:
    assert refusal(real_model) == (
        f"{real_model}: dynamic dimensions without a size: input 'x' axis 0 (--dim x.0=N); "
        "input 'x' axis 2 (--dim x.2=N); input 'x' axis 3 (--dim x.3=N); "
        "give each its size with that flag"
    )


def test_one_named_dimension_binds_every_input(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Add", ["x", "z"], ["y"])]
    inputs = [edge("x", "batch", 4), edge("z", "batch", 1)]
    path = write(tmp_path / "add.onnx", nodes, inputs, [edge("y", "batch", 4)])
    model = load_model(path, dims={"batch": 3})
    assert [spec.shape for spec in (*model.inputs, *model.outputs)] == [(3, 4), (3, 1), (3, 4)]
    assert "input 'x' axis 0 (--dim batch=N); input 'z' axis 0 (--dim batch=N)" in refusal(path)


def test_unknown_dimension_is_refused(tmp_path: Path) -> None:
    path = relu(tmp_path / "relu.onnx", "batch", 4)
    assert refusal(path, batch=1, width=2) == (
        f"{path}: --dim width: no input has such a dynamic dimension; "
        "with the other flags its inputs are x [1, 4] float32"
    )


def test_dimension_of_no_size_is_refused(tmp_path: Path) -> None:
    path = relu(tmp_path / "relu.onnx", "batch", 4)
    assert refusal(path, batch=0) == "--dim batch=0: expected a size of at least 1"


def test_reshape_to_a_computed_shape_is_folded(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    last = onnx.numpy_helper.from_array(np.array([-1], np.int64))
    nodes = [
        make("Shape", ["x"], ["shape"]),
        make("Constant", [], ["zero"], value=onnx.numpy_helper.from_array(np.array([0]))),
        make("Gather", ["shape", "zero"], ["rows"]),
        make("Constant", [], ["last"], value=last),
        make("Concat", ["rows", "last"], ["target"], axis=0),
        make("Reshape", ["x", "target"], ["y"]),
    ]
    path = write(tmp_path / "reshape.onnx", nodes, [edge("x", "n", 2, 3)], [edge("y", "n", 6)])
    model = load_model(path, dims={"n": 5})
    assert model.outputs[0].shape == (5, 6)
    assert verify_model(model, compile_model(model, HOST), seeds=1).ok


def test_every_unsupported_operator_is_named_at_once(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    nodes = [
        make("Det", ["x"], ["a"], name="first"),
        make("Det", ["x"], ["b"], name="second"),
        make("QMoE", ["x"], ["c"], name="packed", domain="com.microsoft"),
        make("Twirl", ["x"], ["d"], domain="org.example"),
    ]
    outputs = [edge(name) for name in "abcd"]
    path = tmp_path / "model.onnx"
    write(path, nodes, [edge("x", 4, 4)], outputs, domains=("com.microsoft", "org.example"))
    assert refusal(path) == (
        f"{path}: TVM's ONNX importer has no converter for Det x2 (first, second); "
        "com.microsoft.QMoE x1 (packed); org.example.Twirl x1 (the node of output d)"
    )


def test_unsupported_operator_of_a_branch_is_named(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    then = onnx.helper.make_graph([make("Det", ["x"], ["t"], name="inner")], "t", [], [edge("t")])
    other = onnx.helper.make_graph(
        [make("ReduceSum", ["x"], ["e"], keepdims=0)], "e", [], [edge("e")]
    )
    nodes = [make("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    inputs = [edge("x", 4, 4), edge("flag", dtype=onnx.TensorProto.BOOL)]
    path = write(tmp_path / "branch.onnx", nodes, inputs, [edge("y")])
    assert refusal(path) == f"{path}: TVM's ONNX importer has no converter for Det x1 (inner)"


def test_standard_attention_is_not_taken_for_microsofts(tmp_path: Path) -> None:
    """The standard's takes three inputs and no `num_heads`."""
    nodes = [onnx.helper.make_node("Attention", ["q", "q", "q"], ["y"], name="attention")]
    shape = (1, 2, 4, 8)
    path = tmp_path / "attention.onnx"
    write(path, nodes, [edge("q", *shape)], [edge("y", *shape)], opset=23)
    assert load_model(path).outputs[0].shape == shape


def test_tvms_table_of_converters_is_as_it_was(tmp_path: Path) -> None:
    from tvm.relax.frontend.onnx import onnx_frontend

    stock = onnx_frontend._get_convert_map
    test_standard_attention_is_not_taken_for_microsofts(tmp_path)
    assert onnx_frontend._get_convert_map is stock


def test_failed_conversion_names_the_node_and_keeps_stdout_clean(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nodes = [onnx.helper.make_node("TopK", ["x", "k"], ["a", "b"], name="largest")]
    inputs = [edge("x", 6, 2), edge("k", 1, dtype=INT64)]
    outputs = [edge("a", 6, "k"), edge("b", 6, "k", dtype=INT64)]
    path = write(tmp_path / "largest.onnx", nodes, inputs, outputs)
    assert re.fullmatch(
        rf"{re.escape(str(path))}: TVM's ONNX importer failed at TopK node largest: \w+: .+",
        refusal(path),
    )
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x08\x07\x12\x04abcd"])
def test_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.onnx: not an ONNX model or damaged: "):
        load_model(path)


def test_truncated_real_model_is_refused(real_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(real_model.read_bytes()[:100_000])
    with pytest.raises(ModelError, match=r"model\.onnx: not an ONNX model or damaged: "):
        load_model(path)
