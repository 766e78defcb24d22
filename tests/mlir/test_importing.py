# SPDX-License-Identifier: Apache-2.0
"""Linalg becomes PrimFuncs that compute the same, and what cannot be imported says where it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm

pytest.importorskip("mlir")

from linalg_cases import FILES, exact, inputs

from kope_tvm.compilation import compile_model
from kope_tvm.errors import ModelError
from kope_tvm.machine import load_target
from kope_tvm.mlir.importing import import_text
from kope_tvm.model import Model, load_model
from kope_tvm.operators import parse_operator

Array = npt.NDArray[Any]


def ran(model: Model, arrays: Sequence[Array]) -> tuple[Array, ...]:
    artifact = compile_model(model, load_target("host"))
    named = {spec.name: array for spec, array in zip(artifact.inputs, arrays, strict=True)}
    return artifact.run(named)


def of_text(text: str, *arrays: Array) -> Array:
    (found,) = ran(load_model(import_text(text, "text.mlir").mod), arrays)
    return found


@pytest.mark.parametrize("name", FILES)
def test_file_computes_what_numpy_does(name: str, data_dir: Path) -> None:
    model = load_model(data_dir / f"{name}.mlir")
    arrays = inputs([spec.shape for spec in model.inputs])
    (found,) = ran(model, arrays)
    np.testing.assert_allclose(found, exact(FILES[name], arrays), rtol=2e-4, atol=1e-4)


def test_every_module_of_the_suite_is_a_case(data_dir: Path, project_dir: Path) -> None:
    assert sorted(path.stem for path in data_dir.glob("*.mlir")) == sorted(FILES)
    ours = (project_dir / "tests" / "data" / "matmul.mlir").read_text()
    assert (data_dir / "matmul.mlir").read_text() == ours


def test_matmul_is_the_task_that_the_operator_is(data_dir: Path) -> None:
    imported = load_model(data_dir / "matmul.mlir").mod["matmul"]
    operator = parse_operator("op:matmul:m=512,n=512,k=512").tir()["main"]
    tvm.ir.assert_structural_equal(
        imported.with_attr("global_symbol", "main"), operator.with_attr("global_symbol", "main")
    )


ELEMENTWISE = """
func.func @f(%x: tensor<6x{kind}>, %y: tensor<6x{kind}>) -> tensor<6x{out}> {{
  %e = tensor.empty() : tensor<6x{out}>
  %r = linalg.map ins(%x, %y : tensor<6x{kind}>, tensor<6x{kind}>) outs(%e : tensor<6x{out}>)
    (%a: {kind}, %b: {kind}, %unused: {out}) {{
      {body}
      linalg.yield %v : {out}
    }}
  return %r : tensor<6x{out}>
}}
"""
FLOATS = (
    np.array([np.nan, 1, 2, -0.5, np.inf, 3], np.float32),
    np.array([1, np.nan, -2, -0.5, 2, -np.inf], np.float32),
)
INTEGERS = (
    np.array([-7, 7, -1, 3, 2**31 - 1, 0], np.int32),
    np.array([2, -2, 1, 3, 1, 5], np.int32),
)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("%v = arith.maximumf %a, %b : f32", [np.nan, np.nan, 2, -0.5, np.inf, 3]),
        ("%v = arith.maxnumf %a, %b : f32", [1, 1, 2, -0.5, np.inf, 3]),
        ("%v = arith.minimumf %a, %b : f32", [np.nan, np.nan, -2, -0.5, 2, -np.inf]),
        ("%v = arith.minnumf %a, %b : f32", [1, 1, -2, -0.5, 2, -np.inf]),
        ("%v = arith.divf %a, %a : f32", [np.nan, 1, 1, 1, np.nan, 1]),
        ("%v = math.absf %b : f32", [1, np.nan, 2, 0.5, 2, np.inf]),
        (
            "%t = arith.cmpf ult, %a, %b : f32\n%v = arith.select %t, %a, %b : f32",
            [np.nan, 1, -2, -0.5, 2, -np.inf],
        ),
        (
            "%t = arith.cmpf one, %a, %b : f32\n%v = arith.uitofp %t : i1 to f32",
            [0, 0, 1, 0, 1, 1],
        ),
        (
            "%t = arith.cmpf une, %a, %b : f32\n%v = arith.sitofp %t : i1 to f32",
            [-1, -1, -1, 0, -1, -1],
        ),
    ],
)
def test_floats_mean_what_they_mean_in_mlir(body: str, want: list[float]) -> None:
    found = of_text(ELEMENTWISE.format(kind="f32", out="f32", body=body), *FLOATS)
    np.testing.assert_array_equal(found, np.array(want, np.float32))


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("%v = arith.divsi %a, %b : i32", [-3, -3, -1, 1, 2**31 - 1, 0]),
        ("%v = arith.floordivsi %a, %b : i32", [-4, -4, -1, 1, 2**31 - 1, 0]),
        ("%v = arith.remsi %a, %b : i32", [-1, 1, 0, 0, 0, 0]),
        ("%v = arith.maxui %a, %b : i32", [-7, -2, -1, 3, 2**31 - 1, 5]),
        ("%c = arith.constant 28 : i32\n%v = arith.shrui %a, %c : i32", [15, 0, 15, 0, 7, 0]),
        ("%v = arith.xori %a, %b : i32", [-5, -7, -2, 0, 2**31 - 2, 5]),
        (
            "%t = arith.cmpi ult, %a, %b : i32\n%v = arith.extsi %t : i1 to i32",
            [0, -1, 0, 0, 0, -1],
        ),
    ],
)
def test_integers_mean_what_they_mean_in_mlir(body: str, want: list[int]) -> None:
    found = of_text(ELEMENTWISE.format(kind="i32", out="i32", body=body), *INTEGERS)
    np.testing.assert_array_equal(found, np.array(want, np.int32))


REDUCED = """
func.func @f(%x: tensor<2x3xf32>, %start: tensor<2xf32>) -> tensor<2xf32> {{
  %r = linalg.reduce {{ arith.{name} }} ins(%x : tensor<2x3xf32>) outs(%start : tensor<2xf32>) dimensions = [1]
  return %r : tensor<2xf32>
}}
"""


@pytest.mark.parametrize(
    ("name", "want"), [("addf", [16, 25]), ("mulf", [60, 1200]), ("maximumf", [10, 10])]
)
def test_reduction_goes_on_from_what_its_output_held(name: str, want: list[float]) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    found = of_text(REDUCED.format(name=name), x, np.array([10, 10], np.float32))
    np.testing.assert_array_equal(found, np.array(want, np.float32))


def test_maximum_of_a_row_with_a_nan_is_nan() -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    found = of_text(REDUCED.format(name="maximumf"), x, np.array([0, 0], np.float32))
    np.testing.assert_array_equal(found, np.array([np.nan, 6], np.float32))


MOVED = """
func.func @f(%x: tensor<2x6xi32>) -> (tensor<3x2x2xi32>, tensor<2x3xi32>, tensor<2x6xi32>) {
  %wide = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 3, 2] : tensor<2x6xi32> into tensor<2x3x2xi32>
  %e = tensor.empty() : tensor<3x2x2xi32>
  %t = linalg.transpose ins(%wide : tensor<2x3x2xi32>) outs(%e : tensor<3x2x2xi32>) permutation = [1, 0, 2]
  %odd = tensor.extract_slice %x[0, 1] [2, 3] [1, 2] : tensor<2x6xi32> to tensor<2x3xi32>
  return %t, %odd, %x : tensor<3x2x2xi32>, tensor<2x3xi32>, tensor<2x6xi32>
}
"""


def test_what_only_moves_elements() -> None:
    x = np.arange(12, dtype=np.int32).reshape(2, 6)
    turned, odd, same = ran(load_model(import_text(MOVED, "moved.mlir").mod), [x])
    np.testing.assert_array_equal(turned, x.reshape(2, 3, 2).transpose(1, 0, 2))
    np.testing.assert_array_equal(odd, x[:, 1::2])
    np.testing.assert_array_equal(same, x)


POOLED = """
func.func @f(%x: tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> {
  %low = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %e = tensor.empty() : tensor<1x2x2x1xf32>
  %start = linalg.fill ins(%low : f32) outs(%e : tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
    ins(%x, %window : tensor<1x4x4x1xf32>, tensor<2x2xf32>) outs(%start : tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  return %r : tensor<1x2x2x1xf32>
}
"""


def test_pooling_takes_its_window_from_an_operand_that_holds_nothing() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    np.testing.assert_array_equal(of_text(POOLED, x).ravel(), [5, 7, 13, 15])


SOFTMAX = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %r = linalg.softmax dimension(1) ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
"""


def test_softmax_that_is_one_operation() -> None:
    found = of_text(SOFTMAX, np.zeros((2, 3), np.float32))
    np.testing.assert_allclose(found, np.full((2, 3), 1 / 3), rtol=1e-6)


REFUSED = {
    "func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}": (
        "x.mlir:1:1: func.func: tensor<?xf32> has a dynamic dimension; expected a static shape"
    ),
    "func.func @f(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {\n"
    "  return %x : tensor<2xcomplex<f32>>\n}": "x.mlir:1:1: func.func: element type complex<f32>;",
    "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %y = arith.addf %x, %x : tensor<2xf32>\n  return %y : tensor<2xf32>\n}": (
        "x.mlir:2:8: arith.addf: it is not imported; known: linalg, arith.constant,"
    ),
    "func.func @f() -> tensor<2xf32> {\n  %y = tensor.empty() : tensor<2xf32>\n"
    "  return %y : tensor<2xf32>\n}": "x.mlir:3:3: func.return: it reads tensor.empty",
    "func.func @f() -> tensor<2xf32> {\n"
    "  %y = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>\n  return %y : tensor<2xf32>\n}": (
        "x.mlir:2:8: arith.constant: a constant of 2 values; make it an argument of the function"
    ),
    "func.func @f(%x: tensor<2xf32>) {\n  linalg.nonsense\n}": (
        "x.mlir:2:3: not MLIR: custom op 'linalg.nonsense' is unknown"
    ),
    "module {\n}": "x.mlir: no func.func in it",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_imported_says_where_it_is(text: str) -> None:
    with pytest.raises(ModelError) as refused:
        import_text(text, "x.mlir")
    assert REFUSED[text] in str(refused.value)
