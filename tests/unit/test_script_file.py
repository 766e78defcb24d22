# SPDX-License-Identifier: Apache-2.0
"""TVMScript and JSON files: what is read, what is refused, and that nothing in them is run."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from tvm_ffi import structural_equal

from kope_tvm.errors import ModelError, UsageError
from kope_tvm.model import extract_tasks, load_model, refused_functions
from kope_tvm.target import TargetSpec

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
TWO_FUNCTIONS = """
from tvm.script import ir as I
from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
    @T.prim_func(s_tir=True)
    def shift(A: T.Buffer((4, 4), "float32"), n: T.int32, B: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.cast(n, "float32")
"""
EXP = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def exp(a: T.handle, b: T.handle):
    {header}
    A = T.match_buffer(a, ({rows}, 4))
    B = T.match_buffer(b, ({rows}, 4))
    for i, j in T.grid({rows}, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj])
"""
SEARCHSORTED = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def searchsorted(
    A: T.Buffer((10,), "int32"), Q: T.Buffer((5,), "int32"), O: T.Buffer((5,), "int32")
):
    for i in range(5):
        with T.sblock("search"):
            vi = T.axis.spatial(5, i)
            O[vi] = 0
            while O[vi] < 10 and A[O[vi]] < Q[vi]:
                O[vi] = O[vi] + 1
"""
DENSE = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(TWO_FUNCTIONS)
    return path


def refusals(path: Path) -> dict[str, str]:
    return {each.name: each.reason for each in refused_functions(load_model(path), HOST)}


def test_every_prim_func_of_a_script_is_a_task_or_named(script: Path) -> None:
    model = load_model(script)
    assert [str(spec) for spec in model.inputs] == ["A [4, 4] float32"]
    assert [str(spec) for spec in model.outputs] == ["B [4, 4] float32"]
    assert [name for name, _, _ in extract_tasks(model, HOST)] == ["main"]
    assert refusals(script) == {"shift": "parameter 'n' is a scalar: not tunable, kept as compiled"}


def test_json_holds_the_same_module(script: Path, tmp_path: Path) -> None:
    mod = load_model(script).mod
    path = tmp_path / "model.json"
    path.write_text(tvm.ir.save_json(mod))
    assert structural_equal(load_model(path).mod, mod)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            EXP.format(header="n = T.int64()", rows="n"),
            "the shape of 'A' is symbolic: not tunable, kept as compiled",
        ),
        (
            EXP.format(header="pass", rows="0"),
            "'A' has no elements: nothing to tune, kept as compiled",
        ),
        (SEARCHSORTED, "has a while loop: not tunable, kept as compiled"),
    ],
    ids=["symbolic", "empty", "while"],
)
def test_untunable_function_is_named_with_its_reason(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_text(text)
    assert extract_tasks(load_model(path), HOST) == []
    assert refusals(path) == {"main": reason}


def test_relax_dimension_is_bound_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(DENSE)
    model = load_model(path, dims={"n": 3})
    assert [str(spec) for spec in model.outputs] == ["output_0 [3, 4] float32"]
    assert [name for name, _, _ in extract_tasks(model, HOST)] == ["fused_matmul_relu"]


def test_unknown_relax_dimension_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(DENSE)
    with pytest.raises(UsageError, match=r"--dim q: .*Function has symbolic variables \(n,\)"):
        load_model(path, dims={"q": 3})


@pytest.mark.parametrize(
    ("inserted", "name"),
    [
        ('__import__("os").system("touch {witness}")', "__import__"),
        ('open("{witness}", "w")', "open"),
        ("tvm.runtime.load_module('{witness}')", "tvm.runtime.load_module"),
        ("().__class__", "_.__class__"),
        ("T.float32.__globals__", "T.float32.__globals__"),
    ],
)
def test_what_leads_out_of_tvmscript_is_refused_and_not_run(
    inserted: str, name: str, script: Path, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    script.write_text(TWO_FUNCTIONS.replace("T.float32(1)", inserted.format(witness=witness)))
    with pytest.raises(ModelError) as caught:
        load_model(script)
    assert str(caught.value) == f"{script}:12: {name!r} is not part of TVMScript"
    assert not witness.exists()


def test_quoted_shape_is_not_evaluated(script: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    shape = f"(\"open('{witness}', 'w')\", 4)"
    script.write_text(TWO_FUNCTIONS.replace("T.Buffer((4, 4)", f"T.Buffer({shape}", 1))
    with pytest.raises(ModelError, match="'open' is not part of TVMScript"):
        load_model(script)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import os\n",
            "{path}:1: 'import os' in a TVMScript model; "
            "only `from tvm.script import ir as I, relax as R, tirx as T` is read",
        ),
        ("def f(:\n", "{path}:1: not Python: invalid syntax"),
        ("", "{path}: defines nothing; expected an @I.ir_module or a @T.prim_func"),
        (
            TWO_FUNCTIONS.replace("T.float32(1)", "T.nothing(1)"),
            "{path}: not TVMScript of this TVM: "
            "error: module 'tvm.tirx.script' has no attribute 'nothing'",
        ),
    ],
)
def test_wrong_script_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert str(caught.value) == message.format(path=path)


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[1, 2]"])
def test_json_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"model\.json: not an IRModule in TVM's JSON"):
        load_model(path)


def test_missing_and_unknown_files_say_what_a_model_is(tmp_path: Path) -> None:
    expected = (
        "expected an .onnx file, a TVMScript .py or .json IRModule, linalg as .mlir, "
        "or an operator spec such as op:matmul:m=512,n=512,k=512,dtype=float32"
    )
    other = tmp_path / "model.txt"
    with pytest.raises(ModelError) as missing:
        load_model(other)
    other.write_text("x")
    with pytest.raises(ModelError) as unknown:
        load_model(other)
    assert str(missing.value) == f"{other}: no such file; {expected}"
    assert str(unknown.value) == f"{other}: unknown kind of model; {expected}"
