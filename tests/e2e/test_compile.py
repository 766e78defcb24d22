# SPDX-License-Identifier: Apache-2.0
"""Compiling with and without records, and what the compiled file can do on its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import structural_equal

from kope_tvm.artifact import Artifact
from kope_tvm.comparison import compare, random_inputs
from kope_tvm.compilation import compile_model, verify_model
from kope_tvm.errors import KopeError, UsageError, WorkDirError
from kope_tvm.learned import Learned
from kope_tvm.model import Model, extract_tasks, load_model
from kope_tvm.operators import known_operators, parse_operator
from kope_tvm.target import TargetSpec
from kope_tvm.written import Written

pytestmark = pytest.mark.e2e

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
MATMUL = "op:matmul:m=16,n=8,k=4"
SMALL = {
    **{"b": 2, "g": 2, "t": 2, "s": 3, "co": 8, "ci": 8, "groups": 2, "d": 8},
    **{"h": 9, "w": 10, "m": 8, "n": 16, "k": 32, "r": 3, "v": 6},
}
"""By parameter; others keep their defaults, as a kernel's size and its stride."""
SIZES = {
    "cumsum": {"m": 8, "n": 64},
    "matmul_int8": {"m": 16, "n": 16, "k": 64},
    "matmul_nbits": {"m": 8, "n": 16, "k": 64},
}
TWO_LAYERS = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            y = R.nn.softmax(R.matmul(h, w))
            R.output(y)
        return y
"""


@pytest.fixture
def layers(tmp_path: Path) -> Model:
    path = tmp_path / "layers.py"
    path.write_text(TWO_LAYERS)
    return load_model(path)


def record(model: Model, work_dir: Path, *, secs: float = 1e-3) -> Any:
    """A stock database with one record for each task: its outermost loop in parallel."""
    work_dir.mkdir(exist_ok=True)
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    target = tvm.target.Target(dict(HOST.tvm_target))
    for _, mod, _ in extract_tasks(model, HOST):
        sch = Schedule(mod)
        for block in sch.get_child_blocks(sch.get_sblock("root")):
            sch.parallel(sch.get_loops(block)[0])
        args = ms.arg_info.ArgInfo.from_prim_func(mod["main"])
        workload = database.commit_workload(mod)
        entry = ms.database.TuningRecord(sch.trace, workload, [secs], target, args)
        database.commit_tuning_record(entry)
    return database


def small(name: str) -> dict[str, int]:
    """Sizes of an operator that its numpy reference is quick at."""
    sizes = known_operators()[name].sizes
    images = {"n": 1} if "ci" in sizes else {}
    found = {key: {**SMALL, **images}[key] for key in sizes if key in {**SMALL, **images}}
    return {**found, **SIZES.get(name, {})}


def of_a_matrix() -> list[str]:
    """Operators of any numbers in two sizes, and those with sizes above; tests/tir has the rest."""
    plain = (name for name, one in known_operators().items() if not one.limits)
    return [
        name for name in plain if name in SIZES or {*known_operators()[name].sizes} == {"m", "n"}
    ]


@pytest.mark.parametrize("name", of_a_matrix())
def test_operator_equals_numpy_and_onnx_runtime(name: str) -> None:
    spec = f"op:{name}:{','.join(f'{key}={size}' for key, size in small(name).items())}"
    model = load_model(spec)
    artifact = compile_model(model, HOST)
    inputs = random_inputs(model.inputs, seed=7)
    expected = parse_operator(spec).reference(*inputs.values())
    found = compare(artifact.run(inputs), [expected])
    assert found.ok, str(found)
    check = verify_model(model, artifact, seeds=2)
    assert check.ok, str(check)


def test_without_work_dir_everything_falls_back(layers: Model) -> None:
    coverage = compile_model(layers, HOST).coverage
    assert (coverage.hit, coverage.fallback) == ((), ("fused_matmul_relu", "matmul", "softmax"))
    assert str(coverage) == "0 of 3 functions tuned, 3 fell back"


def test_missing_work_dir_falls_back_and_is_not_created(layers: Model, tmp_path: Path) -> None:
    work_dir = tmp_path / "none"
    assert compile_model(layers, HOST, work_dir).coverage.hit == ()
    assert not work_dir.exists()


def test_records_are_applied_as_stock_does(layers: Model, tmp_path: Path) -> None:
    database = record(layers, tmp_path / "work")
    target = tvm.target.Target(dict(HOST.tvm_target))
    ours, coverage = Learned.open(tmp_path / "work", target).apply(layers.mod)
    assert coverage.hit == ("fused_matmul_relu", "matmul", "softmax")
    assert coverage.lanes == ("decisions",) * 3
    with target, database, tvm.transform.PassContext(opt_level=3):
        stock = relax.transform.MetaScheduleApplyDatabase()(layers.mod)
    assert structural_equal(ours, stock)


def test_tuned_model_equals_untuned(layers: Model, tmp_path: Path) -> None:
    record(layers, tmp_path / "work")
    artifact = compile_model(layers, HOST, tmp_path / "work")
    assert len(artifact.coverage.hit) == 3
    check = verify_model(layers, artifact)
    assert check.ok, str(check)


def test_tuned_operator_is_hit(tmp_path: Path) -> None:
    model = load_model(MATMUL)
    record(model, tmp_path / "work")
    artifact = compile_model(model, HOST, tmp_path / "work")
    assert (artifact.coverage.hit, artifact.coverage.fallback) == (("main",), ())
    assert verify_model(model, artifact, seeds=1).ok


def test_failed_record_is_no_hit(tmp_path: Path) -> None:
    model = load_model(MATMUL)
    record(model, tmp_path / "work", secs=1e10)
    assert compile_model(model, HOST, tmp_path / "work").coverage.fallback == ("main",)


def test_record_that_does_not_replay_falls_back_with_its_reason(tmp_path: Path) -> None:
    tall, flat = (load_model(spec) for spec in ("op:gelu:m=4,n=4", "op:reduce_sum:m=4,n=4"))
    target = tvm.target.Target(dict(HOST.tvm_target))
    foreign = Schedule(tall.mod)
    foreign.parallel(foreign.get_loops(foreign.get_sblock("T_multiply_2"))[0])
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(flat.mod)
    args = ms.arg_info.ArgInfo.from_prim_func(flat.mod["main"])
    database.commit_tuning_record(
        ms.database.TuningRecord(foreign.trace, workload, [1e-3], target, args)
    )
    mod, coverage = Learned(database, target, Written(tmp_path)).apply(flat.mod)
    assert structural_equal(mod, flat.mod)
    assert (coverage.hit, coverage.fallback) == ((), ("main",))
    assert re.match(r"main: its record does not replay: .+", coverage.failed[0])


def test_damaged_database_is_refused(tmp_path: Path) -> None:
    model = load_model(MATMUL)
    record(model, tmp_path / "work")
    (tmp_path / "work" / "database_tuning_record.json").write_text("nonsense\n")
    with pytest.raises(WorkDirError, match="MetaSchedule cannot read its database"):
        compile_model(model, HOST, tmp_path / "work")


def test_work_dir_of_another_target_is_refused(tmp_path: Path) -> None:
    model = load_model(MATMUL)
    record(model, tmp_path / "work")
    other = TargetSpec("other", {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 2})
    with pytest.raises(WorkDirError, match=r"holds records for .*; compiling for .*x86-64-v2"):
        compile_model(model, other, tmp_path / "work")


def test_verification_catches_a_wrong_build() -> None:
    model = load_model("op:reduce_sum:m=8,n=16")
    wrong = compile_model(load_model("op:reduce_max:m=8,n=16"), HOST)
    check = verify_model(model, wrong, seeds=1)
    assert not check.ok
    assert not check.untuned.ok
    assert check.untuned_onnxruntime is not None
    assert check.untuned_onnxruntime.ok


def test_saved_file_runs_in_a_fresh_process(layers: Model, tmp_path: Path) -> None:
    artifact = compile_model(layers, HOST)
    path = artifact.save(tmp_path / "model.so")
    inputs = random_inputs(layers.inputs, seed=1)
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    code = (
        "import sys, numpy as np; from kope_tvm.artifact import Artifact\n"
        "model, x, w, output = sys.argv[1:]\n"
        "np.save(output, Artifact.load(model).run(x=np.load(x), w=np.load(w))[0])"
    )
    files = [path, *(tmp_path / f"{name}.npy" for name in ("x", "w", "output"))]
    package_parent = Path(__file__).resolve().parents[2] / "python"
    environment = {**os.environ, "PYTHONPATH": str(package_parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, *files], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Scope" not in done.stderr
    assert np.array_equal(np.load(files[-1]), artifact.run(inputs)[0])


def test_loaded_file_knows_what_it_is(layers: Model, tmp_path: Path) -> None:
    artifact = compile_model(layers, HOST)
    loaded = Artifact.load(artifact.save(tmp_path / "model.so"))
    assert loaded.manifest == artifact.manifest
    copied = Artifact.load(loaded.save(tmp_path / "copy.so"))
    assert copied.coverage.fallback == ("fused_matmul_relu", "matmul", "softmax")


def test_profile_counts_each_function(layers: Model) -> None:
    times = compile_model(layers, HOST).profile(random_inputs(layers.inputs, seed=0))
    calls = {each.name: each.calls for each in times if not each.name.startswith("vm.")}
    assert calls == {"fused_matmul_relu": 1, "matmul": 1, "softmax": 1}
    assert all(each.secs >= 0 for each in times)


def test_time_gives_a_value_a_repeat() -> None:
    model = load_model(MATMUL)
    secs = compile_model(model, HOST).time(random_inputs(model.inputs, 0), number=2, repeat=3)
    assert len(secs) == 3


def test_the_caller_keeps_its_cores() -> None:
    """TVM's thread pool would leave it on one, and the next target would be one of one core."""
    before = os.sched_getaffinity(0)
    artifact = compile_model(load_model(MATMUL), HOST)
    artifact.run(random_inputs(artifact.inputs, seed=0))
    assert os.sched_getaffinity(0) == before


def test_wrong_inputs_are_refused_by_name() -> None:
    artifact = compile_model(load_model(MATMUL), HOST)
    good = np.zeros((16, 4), np.float32)
    for inputs, message in (
        ({}, "no value for input A [16, 4] float32; given: none"),
        ({"A": good}, "no value for input B [4, 8] float32; given: A"),
        ({"A": good.T, "B": good}, "input A [16, 4] float32 was given [4, 16] float32"),
        ({"A": good.astype(int), "B": good}, "input A [16, 4] float32 was given [16, 4] int64"),
    ):
        with pytest.raises(UsageError) as caught:
            artifact.run(inputs)
        assert str(caught.value) == message


def test_other_file_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "other.so"
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(UsageError) as caught:
        Artifact.load(path)
    assert str(caught.value) == (
        f"{path}: not written by `kope compile`; expected a file that it wrote"
    )


def test_missing_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "none" / "model.so"
    with pytest.raises(UsageError, match="no folder"):
        compile_model(load_model(MATMUL), HOST).save(path)
    assert list(tmp_path.iterdir()) == []


def test_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = compile_model(load_model(MATMUL), HOST)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(KopeError, match=r"needs a C\+\+ compiler .* apt install g\+\+"):
        artifact.save(tmp_path / "model.so")
    assert list(tmp_path.iterdir()) == []
