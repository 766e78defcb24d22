# SPDX-License-Identifier: Apache-2.0
"""TIR said in linalg: run through MLIR and held against what TVM computes, or refused by name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlir")

from click.testing import CliRunner
from tvm import IRModule, s_tir
from tvm.s_tir import meta_schedule as ms
from tvm.script import from_source
from tvm.target import Target

from kope_tvm.cli import main
from kope_tvm.evidence import Example
from kope_tvm.machine import load_target
from kope_tvm.mlir.bindings import parse
from kope_tvm.mlir.execution import run
from kope_tvm.mlir.exporting import distance
from kope_tvm.mlir.importing import import_file, import_text
from kope_tvm.mlir.spelling import UnsayableError
from kope_tvm.mlir.tir_linalg import said_function
from kope_tvm.mlir.tir_module import said_module
from kope_tvm.model import extract_tasks, load_model

SAID = [
    "op:attention:h=2,m=8,n=8,d=4",
    "op:avg_pool2d:n=1,ci=2,h=7,w=9,kernel=3,stride=2,pad=1",
    "op:batch_matmul:b=2,m=4,n=8,k=6",
    "op:column_mean:m=6,n=10",
    "op:conv2d_bias_relu:n=1,ci=3,h=8,w=8,co=4,kernel=3,stride=1,pad=1",
    "op:conv_transpose2d:n=1,ci=2,h=4,w=4,co=3,kernel=4,stride=2,pad=1",
    "op:depthwise_conv2d:n=1,ci=4,h=9,w=9,kernel=3,stride=2,pad=1",
    "op:dilated_conv2d:n=1,ci=2,h=8,w=8,co=2,kernel=3,stride=1,pad=2,dilation=2",
    "op:gelu:m=4,n=8",
    "op:group_conv2d:n=1,ci=4,h=6,w=6,co=4,kernel=3,stride=1,pad=1,groups=2",
    "op:layernorm:m=4,n=8",
    "op:linear:m=4,n=8,k=6",
    "op:log_softmax:m=4,n=8",
    "op:matmul:m=4,n=8,k=6",
    "op:matmul_int8:m=4,n=8,k=6",
    "op:max_pool2d:n=1,ci=2,h=8,w=8,kernel=3,stride=2,pad=1",
    "op:reduce_max:m=6,n=10",
    "op:rmsnorm:m=4,n=8",
    "op:silu_mul:m=4,n=8",
    "op:softmax:m=4,n=8",
    "op:transpose:m=4,n=6",
]
REFUSED = {
    "op:argmax:m=4,n=8": "it is a SeqStmt; an operation stores one element at a time",
    "op:gather:v=8,m=4,n=5": "which is not affine",
    "op:heat2d:h=8,w=8": "a part of that tensor",
    "op:rope:s=4,h=2,d=4": "behind a condition, out of its bounds",
    "op:conv2d_int8:n=1,ci=4,h=6,w=6,co=4,kernel=3,stride=1,pad=1": "linalg has no uint8",
}
SCALARS = """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((8, 8), "float32"), n: T.Buffer((8, 8), "int32"),
         out: T.Buffer((8, 8), "float32"), kept: T.Buffer((8, 8), "int8")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(8, 8):
        with T.sblock("mixed"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            out[v_i, v_j] = T.Select(
                a[v_i, v_j] > T.float32(0) and n[v_i, v_j] != 1,
                T.Cast("float32", (n[v_i, v_j] + v_j * 3 - 7) % 4 + v_i // 3),
                T.max(T.fabs(a[v_j, v_i]), T.min(T.sigmoid(a[v_i, v_j]), T.float32(0.25))),
            )
    for i, j in T.grid(8, 8):
        with T.sblock("compared"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            kept[v_i, v_j] = T.Cast("int8", not (out[v_i, v_j] <= a[v_i, v_j]))
"""

MODEL = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32"),
             at: R.Tensor((3,), "int64")):
        with R.dataflow():
            y = R.take(R.nn.relu(R.matmul(x, w)), at, axis=0)
            R.output(y)
        return y
"""


def function(spec: str) -> Any:
    return load_model(spec).mod["main"]


@pytest.mark.parametrize("spec", SAID)
def test_what_is_said_computes_what_tvm_computes(spec: str) -> None:
    found = said_module(IRModule({"main": function(spec)}), ())
    assert found.left_out == ()
    assert found.distance < 1e-5
    assert len(found.functions["main"].sources) == len(blocks(function(spec)))


def blocks(func: Any) -> list[Any]:
    sch = s_tir.Schedule(IRModule({"main": func}))
    return list(sch.get_child_blocks(sch.get_sblock("root")))


@pytest.mark.parametrize("spec", REFUSED)
def test_what_linalg_has_no_words_for_is_named(spec: str) -> None:
    with pytest.raises(UnsayableError, match=REFUSED[spec]):
        said_function("main", function(spec))


def test_scalars_mean_the_same() -> None:
    func = from_source(SCALARS)
    found = said_module(IRModule({"main": func}), ())
    assert found.left_out == ()
    assert found.distance < 1e-5


def test_booleans_in_memory_are_refused() -> None:
    script = SCALARS.replace('"int8")):', '"bool")):').replace('T.Cast("int8", not', "(not")
    with pytest.raises(UnsayableError, match="compared: it keeps booleans in memory"):
        said_function("main", from_source(script))


def test_a_file_of_linalg_is_said_again_with_its_maxima(data_dir: Path) -> None:
    for path in sorted(data_dir.glob("*.mlir")):
        for name, func in import_file(path).mod.functions.items():
            parse(said_function(str(name.name_hint), func).text, path.name)
    (softmax,) = import_file(data_dir / "softmax.mlir").mod.functions.values()
    text = said_function("main", softmax).text
    assert "arith.maximumf" in text
    assert "fastmath" not in text


def test_nans_are_what_they_were() -> None:
    text = (Path(__file__).parent / "maxima.mlir").read_text()
    mod = import_text(text, "maxima.mlir").mod
    said = said_function("maxima", mod["maxima"]).text
    left, right = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    for found, want in zip(run(said, [left, right]), run(text, [left, right]), strict=True):
        np.testing.assert_array_equal(found, want)


def test_what_is_said_is_imported_as_the_same_blocks() -> None:
    said = said_function("main", function("op:softmax:m=4,n=8"))
    again = import_text(said.text, "softmax.mlir")
    assert len(again.sources["main"]) == len(said.sources)
    assert said_function("main", again.mod["main"]).text.count("linalg.generic") == 4


def test_a_wrong_translation_would_be_found() -> None:
    func = function("op:relu:m=4,n=8")
    sevens = np.full((4, 8), 7, np.float32)
    found = said_module(IRModule({"main": func}), [Example("main", (sevens,))])
    assert found.functions == {}
    (told,) = found.left_out
    assert "differs from TVM's" in told


def test_a_nan_of_one_alone_is_no_small_difference() -> None:
    nan, one = np.array([np.nan, 1.0]), np.array([2.0, 1.0])
    assert distance(nan, nan) == 0
    assert distance(nan, one) == distance(one, nan) == float("inf")


def export(folder: Path, spec: str, *options: object) -> Any:
    words = ["export", "mlir", spec, "--target", "host", "-o", folder, "--name", "it", *options]
    return CliRunner().invoke(main, [str(each) for each in words])


def parallel_records(spec: str, work_dir: Path) -> Path:
    """A stock database with the outermost loop of every block in parallel."""
    work_dir.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    host = load_target("host")
    (task,) = extract_tasks(load_model(spec), host)
    sch = s_tir.Schedule(task.mod)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        sch.parallel(sch.get_loops(block)[0])
    args = ms.arg_info.ArgInfo.from_prim_func(task.mod["main"])
    workload = database.commit_workload(task.mod)
    target = Target(dict(host.tvm_target))
    record = ms.database.TuningRecord(sch.trace, workload, [1e-3], target, args)
    database.commit_tuning_record(record)
    return work_dir


def test_a_tuned_operator_is_a_module_and_a_script_that_mlir_opt_takes(tmp_path: Path) -> None:
    spec, out = "op:gelu:m=64,n=256", tmp_path / "out"
    done = export(out, spec, "--work-dir", parallel_records(spec, tmp_path / "work"))
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "it.mlir", "it_script.mlir"]
    assert "right to " in (out / "README.md").read_text()
    tool = shutil.which("mlir-opt-22")
    if tool is None:
        pytest.skip("no mlir-opt-22: apt-get install mlir-22-tools")
    words = [
        f"--transform-preload-library=transform-library-paths={out / 'it_script.mlir'}",
        "--transform-interpreter",
    ]
    applied = subprocess.run(
        [tool, out / "it.mlir", *words], capture_output=True, text=True, check=True
    )
    assert "scf.forall" in applied.stdout


def test_an_untuned_operator_is_a_module_and_no_script(tmp_path: Path) -> None:
    done = export(tmp_path, "op:softmax:m=4,n=8")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "it.mlir"]
    text = (tmp_path / "it.mlir").read_text()
    assert "of what TVM computes, in MLIR's default lowering" in text
    array = np.arange(32, dtype=np.float32).reshape(4, 8)
    (found,) = run(text, [array])
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_the_functions_of_a_model_are_said_and_the_others_named(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = export(tmp_path / "out", str(tmp_path / "model.py"))
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "it.mlir").read_text()
    assert "func.func @fused_matmul_relu" in text
    assert "// left out: take: T_take: it reads at " in text


def test_an_operator_that_linalg_has_no_words_for_is_refused(tmp_path: Path) -> None:
    done = export(tmp_path, "op:argmax:m=4,n=8")
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "linalg has words for none of its functions: main: X_red_temp: it is a SeqStmt" in said
