# SPDX-License-Identifier: Apache-2.0
"""Models as custom operators of ONNX Runtime: right in its oldest fit version and in this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

import onnx
from export_checks import TWO_FUNCTIONS, TWO_LAYERS
from onnx_graph import MICROSOFT, Graph
from ort_sessions import exported, run_here, run_in_old, session_of

from kope_tvm.comparison import compare, random_inputs
from kope_tvm.evidence import example_input
from kope_tvm.model import load_model
from kope_tvm.onnx_reference import OnnxReference

pytestmark = pytest.mark.e2e

Run = Callable[[Path, Mapping[str, np.ndarray]], list[np.ndarray]]
both_versions = pytest.mark.parametrize("run", [run_here, run_in_old], ids=["installed", "oldest"])


def test_a_real_model_equals_onnx_runtime(project_dir: Path, tmp_path: Path) -> None:
    path = project_dir / "build" / "demo" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    if not path.is_file():
        pytest.skip(f"needs the model of the package rapidocr-onnxruntime; make {path}")
    model = load_model(path, dims={"x.0": 1, "x.2": 48, "x.3": 192})
    out = exported(model, tmp_path / "out")
    assert model.onnx is not None
    reference = OnnxReference(model.onnx, 1, optimised=False)
    feeds = random_inputs(model.inputs, seed=3)
    expected = reference.run(feeds)
    for run in (run_here, run_in_old):
        assert compare(run(out, feeds), expected).ok
    session = session_of(out)
    edges = [(e.name, e.shape, e.type) for e in (*session.get_inputs(), *session.get_outputs())]
    assert edges == [
        ("x", [1, 3, 48, 192], "tensor(float)"),
        (reference.output_names[0], [1, 2], "tensor(float)"),
    ]


@both_versions
def test_int4_weights(run: Run, tmp_path: Path) -> None:
    """Nibble 8 stands for 0 and 9 for 1: 32 ones times 0.5 make 16."""
    graph = Graph(tmp_path)
    x = graph.feed("x", np.ones((1, 32), np.float32))
    packed = np.full((2, 1, 16), 0x88, np.uint8)
    packed[1] = 0x99
    weights = graph.weight("w", packed)
    scales = graph.weight("s", np.full(2, 0.5, np.float32))
    graph.node(
        "MatMulNBits", [x, weights, scales], ["y"], MICROSOFT, K=32, N=2, bits=4, block_size=32
    )
    out = exported(load_model(graph.save()), tmp_path / "out")
    np.testing.assert_array_equal(run(out, graph.feeds)[0], [[0, 16]])


@both_versions
def test_integers_booleans_and_scalars(run: Run, tmp_path: Path) -> None:
    """Where c is set x + 5, else -x; and the largest of all."""
    graph = Graph(tmp_path)
    x = graph.feed("x", np.array([1, 2, 1 << 40, 4], np.int64))
    five = graph.feed("five", np.array(5, np.int64))
    c = graph.feed("c", np.array([True, False, True, False]))
    graph.node("Add", [x, five], ["more"])
    graph.node("Neg", [x], ["less"])
    graph.node("Where", [c, "more", "less"], ["y"])
    graph.node("ReduceMax", ["y"], ["most"], keepdims=0)
    graph.node("Not", [c], ["unset"])
    graph.outputs[:] = ["y", "most", "unset"]
    out = exported(load_model(graph.save()), tmp_path / "out")
    y, most, unset = run(out, graph.feeds)
    assert [str(each.dtype) for each in (y, most, unset)] == ["int64", "int64", "bool"]
    assert list(y) == [6, -2, (1 << 40) + 5, -4]
    assert most.shape == ()
    assert int(most) == (1 << 40) + 5
    assert list(unset) == [False, True, False, True]


@both_versions
def test_tensors_without_elements(run: Run, tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    x = graph.feed("x", np.array([[1, 2], [3, 4]], np.float32))
    sizes = graph.weight("sizes", np.array([0, 2], np.int64))
    graph.node("Split", [x, sizes], ["none", "all"], axis=0)
    none, everything = run(exported(load_model(graph.save()), tmp_path / "out"), graph.feeds)
    assert none.shape == (0, 2)
    assert everything.tolist() == [[1, 2], [3, 4]]


@both_versions
def test_outputs_that_are_inputs_and_outputs_given_twice(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "layers.py"
    path.write_text(TWO_LAYERS)
    model = load_model(path)
    feeds = {spec.name: example_input(spec, i) for i, spec in enumerate(model.inputs)}
    y, h, x, again = run(exported(model, tmp_path / "out"), feeds)
    hidden = np.maximum(feeds["x"] @ feeds["w"], 0)
    np.testing.assert_allclose(h, hidden, rtol=1e-5)
    raised = np.exp(hidden @ feeds["w"] + 0.5)
    np.testing.assert_allclose(y, raised / raised.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(x, feeds["x"])
    np.testing.assert_array_equal(again, y)


def test_an_output_of_onnx_that_is_an_input(tmp_path: Path) -> None:
    """A graph may hand its input on under the same name, and a node may not."""
    edge = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    other = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [edge], [other, edge])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "handed.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    out = exported(load_model(path), tmp_path / "out")
    y, x = run_here(out, {"x": np.array([1, 2, 3], np.float32)})
    assert (list(y), list(x)) == ([-1, -2, -3], [1, 2, 3])


def test_every_primfunc_of_a_module_is_an_operator(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_FUNCTIONS)
    out = exported(load_model(path), tmp_path / "out")
    numbers = np.arange(-4, 4, dtype=np.int8)
    assert list(run_here(out, {"A": numbers})[0]) == list(range(-3, 5))
    half = onnx.TensorProto.FLOAT16
    edges = [onnx.helper.make_tensor_value_info(name, half, [8]) for name in "ab"]
    node = onnx.helper.make_node("k_twice", ["a"], ["b"], domain="kope.k")
    graph = onnx.helper.make_graph([node], "g", edges[:1], edges[1:])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("kope.k", 1)]
    own = tmp_path / "own.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), own)
    halves = np.full(8, 1.5, np.float16)
    assert list(session_of(out, model=own).run(None, {"a": halves})[0]) == [3.0] * 8
