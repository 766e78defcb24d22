# SPDX-License-Identifier: Apache-2.0
"""What is written for ONNX Runtime around a library: C tables and a README."""

from __future__ import annotations

import re

import numpy as np

from kope_tvm.c_package.plan import CFunction, Param
from kope_tvm.ort_package.edges import Operator
from kope_tvm.ort_package.readme import Readme
from kope_tvm.ort_package.sample import sample
from kope_tvm.ort_package.tables import extents, quoted, table
from kope_tvm.tensor_spec import TensorSpec


def param(name: str, shape: tuple[int, ...], dtype: str, *, is_output: bool = False) -> Param:
    return Param(re.sub(r"\W", "_", name), TensorSpec(name, shape, dtype), is_output)


def operator(*params: Param) -> Operator:
    return Operator("kope.net", "net", CFunction("run", "main", params, ()))


NET = operator(
    param("in/0", (), "bool"),
    param("in/1", (2, 3), "float16"),
    param("out/0", (3,), "int64", is_output=True),
)


def test_names_of_a_model_are_strings_of_c() -> None:
    assert quoted("x.0") == '"x.0"'
    assert quoted('a"b\\c?\n') == '"a\\042b\\134c\\077\\012"'
    assert quoted("\u00e9") == '"\\303\\251"'


def test_a_scalar_has_an_array_of_extents_too() -> None:
    assert extents((2, 3)) == "(const int64_t[]){2, 3}"
    assert extents(()) == "(const int64_t[]){0}"


def test_a_table_has_a_row_an_edge() -> None:
    """Name, dtype, its number in ONNX, whether it is an output, axes, bytes, extents."""
    rows = table("net", [NET], ["made"]).splitlines()
    assert rows[0] == "// made"
    assert '    {"in/0", "bool", 9, 0, 0, 1, (const int64_t[]){0}},' in rows
    assert '    {"in/1", "float16", 10, 0, 2, 12, (const int64_t[]){2, 3}},' in rows
    assert '    {"out/0", "int64", 7, 1, 1, 24, (const int64_t[]){3}},' in rows


def test_edges_of_one_name_are_told_apart() -> None:
    first, second = param("x", (1,), "int8"), param("y", (1,), "int8")
    twin = Param("x_2", first.spec, is_output=True)
    named = operator(first, second, twin)
    assert [named.edge_name(each) for each in (first, second, twin)] == ["x", "y", "x_2"]


def test_a_sample_stores_what_should_come_out() -> None:
    text = sample(NET, [np.array([7, 0, -2])], [])
    assert "#define NUM_INPUTS 2\n#define NUM_OUTPUTS 1\n" in text
    assert "static const double values_0[] = {\n    7.0, 0.0, -2.0,\n};" in text
    assert "    {values_0, sizeof values_0 / sizeof *values_0, 1, 0.0}," in text


def test_a_readme_shows_no_python_that_cannot_run() -> None:
    halves = operator(param("x", (4,), "bfloat16"), param("y", (4,), "bfloat16", is_output=True))
    shown = Readme("libnet_ort.so", [NET], NET, 2, ["made"]).text()
    hidden = Readme("libnet_ort.so", [halves], halves, 2, ["made"]).text()
    assert '    "in/1": np.zeros((2, 3), "float16"),' in shown
    assert "- `kope.net::net(in/0 [] bool, in/1 [2, 3] float16) -> out/0 [3] int64`" in shown
    assert "np.zeros" not in hidden
    assert "has no arrays of bfloat16" in hidden
