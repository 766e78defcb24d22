# SPDX-License-Identifier: Apache-2.0
"""Whole models: weights packed at compile time, what made a file, and who can load it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from click.testing import CliRunner
from tvm import IRModule, relax
from tvm.s_tir import meta_schedule as ms

pytest.importorskip("onnx", reason="needs the Python package onnx")

from onnx_graph import Graph

import kope_tvm
from kope_tvm.artifact import Artifact
from kope_tvm.bench.models_block import Sizes, decode_block
from kope_tvm.cli import main
from kope_tvm.compilation import compile_model, verify_model
from kope_tvm.feedback.rates import Rates
from kope_tvm.feedback.roof import Roof, kept_roof, known_roof
from kope_tvm.machine import load_target
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.prepack.split import split
from kope_tvm.progress import SilentProgress
from kope_tvm.schedules.matmul_x86 import schedule
from kope_tvm.toolchain import toolchain
from kope_tvm.transform import pipeline

pytestmark = pytest.mark.e2e

ROWS, DEPTH, COLUMNS = 64, 96, 128
RNG = np.random.default_rng(5)
WEIGHT = RNG.standard_normal((DEPTH, COLUMNS)).astype("float32")
X = RNG.standard_normal((ROWS, DEPTH)).astype("float32")
HOST = load_target("host")

RUNTIME_ALONE = """
import sys
import numpy as np, tvm
from tvm import runtime
from tvm.runtime.vm import VirtualMachine
assert tvm.base._RUNTIME_ONLY
module = runtime.load_module(sys.argv[1])
vm = VirtualMachine(module, tvm.cpu())
out = vm["main"](runtime.tensor(np.load(sys.argv[2])))
np.save(sys.argv[3], out.numpy())
"""


def layer() -> IRModule:
    """One product with a constant weight."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, DEPTH), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = relax.op.matmul(x, relax.const(WEIGHT))
            out = builder.emit_output(builder.normalize(relax.op.nn.relu(product)))
        builder.emit_func_output(out)
    return builder.get()


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    """A record of a schedule that packs the weight."""
    folder = tmp_path / "work"
    folder.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(folder))
    ((_, mod, _),) = extract_tasks(load_model(layer()), HOST)
    spaces = schedule(mod["main"], HOST)
    sch = next(one for one in spaces if split(one.mod["main"], [1], 2) is not None)
    args = ms.arg_info.ArgInfo.from_prim_func(mod["main"])
    target = tvm.target.Target(dict(HOST.tvm_target))
    workload = database.commit_workload(mod)
    database.commit_tuning_record(
        ms.database.TuningRecord(sch.trace, workload, [1e-6], target, args)
    )
    return folder


def expected() -> np.ndarray:
    found: np.ndarray = np.maximum(X @ WEIGHT, 0)
    return found


def test_a_constant_weight_is_packed_when_the_model_is_compiled(work_dir: Path) -> None:
    compiled = kope_tvm.compile(layer(), "host", work_dir)
    assert compiled.manifest.made_by.prepacked == compiled.coverage.hit != ()
    np.testing.assert_allclose(compiled.run(x=X)[0], expected(), rtol=1e-4, atol=1e-4)
    (func,) = (
        func for func in compiled.mod.functions.values() if isinstance(func, tvm.tirx.PrimFunc)
    )
    assert [len(param.shape) for param in func.params] == [2, 3, 2]


def test_a_weight_that_is_an_input_is_packed_in_every_call(tmp_path: Path) -> None:
    text = (
        "from tvm.script import ir as I, relax as R\n"
        "@I.ir_module\nclass M:\n    @R.function\n"
        f'    def main(x: R.Tensor(({ROWS}, {DEPTH}), "float32"), '
        f'w: R.Tensor(({DEPTH}, {COLUMNS}), "float32")):\n'
        "        with R.dataflow():\n            y = R.matmul(x, w)\n            R.output(y)\n"
        "        return y\n"
    )
    (tmp_path / "m.py").write_text(text)
    model = load_model(tmp_path / "m.py")
    assert compile_model(model, HOST).manifest.made_by.prepacked == ()


def test_the_pipeline_is_one_for_tvm(work_dir: Path) -> None:
    target = tvm.target.Target(dict(HOST.tvm_target))
    ours = pipeline(work_dir, target)
    built = tvm.compile(layer(), target, relax_pipeline=ours, tir_pipeline="kope")
    out = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(X))
    np.testing.assert_allclose(out.numpy(), expected(), rtol=1e-4, atol=1e-4)


def test_a_file_says_what_made_it(work_dir: Path, tmp_path: Path) -> None:
    file = kope_tvm.compile(layer(), "host", work_dir).save(tmp_path / "layer.so")
    made_by = Artifact.load(file).manifest.made_by
    (facts,) = made_by.functions
    assert facts.flops >= 2 * ROWS * DEPTH * COLUMNS
    assert (len(facts.task_key), len(facts.state), facts.lane) == (16, 16, "decisions")
    assert made_by.versions.startswith("kope-tvm ")
    assert [gate.partition(":")[0] for gate in made_by.gates] == ["model", "performance"]


def test_a_profile_has_shares_and_rates(work_dir: Path, tmp_path: Path) -> None:
    file = kope_tvm.compile(layer(), "host", work_dir).save(tmp_path / "layer.so")
    found = CliRunner().invoke(main, ["run", str(file), "--profile", "--json"])
    profile = json.loads(found.stdout)["profile"]
    assert sum(one["share"] for one in profile) == pytest.approx(1.0)
    (tuned,) = (one for one in profile if one["kind"] == "decisions")
    assert tuned["gflops"] > 0.1
    assert {one["kind"] for one in profile} == {"decisions", "vm"}


def test_a_profile_says_how_near_the_roof_is(
    work_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At two million operations a second a product is as near as its rate over that."""
    monkeypatch.setenv("KOPE_HOME", str(tmp_path))
    slow = Rates({"float32": 2e6}, ((0, 1e12),))
    kept_roof(Roof(HOST.key, toolchain(), slow, slow, 0.0), HOST, tmp_path)
    file = kope_tvm.compile(layer(), "host", work_dir).save(tmp_path / "layer.so")
    found = CliRunner().invoke(main, ["run", str(file), "--profile", "--json"])
    (tuned,) = (one for one in json.loads(found.stdout)["profile"] if one["kind"] == "decisions")
    assert tuned["roof_share"] == pytest.approx(tuned["gflops"] * 1e9 / 2e6, rel=0.02)


def test_a_call_of_a_library_is_kept(tmp_path: Path) -> None:
    """Here a function that this process registers: twice the product is what comes out."""

    def doubled(given: tvm.runtime.Tensor, out: tvm.runtime.Tensor) -> None:
        out.copyfrom(given.numpy() * 2)

    tvm_ffi.register_global_func("kope_test.doubled", doubled, override=True)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, DEPTH), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, relax.const(WEIGHT)))
            of_library = relax.call_dps_packed(
                "kope_test.doubled", [product], relax.TensorType((ROWS, COLUMNS), "float32")
            )
            out = builder.emit_output(of_library)
        builder.emit_func_output(out)
    model = load_model(builder.get())
    kope_tvm.tune(model, HOST, tmp_path, 4, proposer="experience", seed=1)
    artifact = kope_tvm.compile(builder.get(), "host", tmp_path)
    (found,) = artifact.run({"x": X})
    np.testing.assert_allclose(found, 2 * (X @ WEIGHT), rtol=1e-4, atol=1e-4)
    assert "kope_test.doubled" in {one.name for one in artifact.profile({"x": X})}


class _Roofs(SilentProgress):
    """Whether the machine's roof is known, by trial."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.known: list[bool] = []

    def trial(self, *_: object) -> None:
        self.known.append(known_roof(HOST, self.home) is not None)


@pytest.mark.parametrize(("num_layers", "is_known"), [(1, False), (2, True)])
def test_trials_of_several_functions_are_shared_by_their_room_to_the_roof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_layers: int, is_known: bool
) -> None:
    """Of one function there is nothing to share, and its first trial does not wait."""
    monkeypatch.setenv("KOPE_HOME", str(tmp_path))
    graph = Graph(tmp_path)
    x = graph.feed("x", np.ones((16, 32), np.float32))
    for number in range(num_layers):
        weight = graph.weight(f"w{number}", np.ones((32, 16 + number), np.float32))
        graph.node("MatMul", [x, weight], [f"y{number}"])
    roofs = _Roofs(tmp_path)
    kope_tvm.tune(
        graph.save(), HOST, tmp_path / "work", 4, proposer="experience", seed=1, progress=roofs
    )
    assert set(roofs.known) == {is_known}


def test_the_runtime_alone_runs_a_file(work_dir: Path, tmp_path: Path) -> None:
    file = kope_tvm.compile(layer(), "host", work_dir).save(tmp_path / "layer.so")
    np.save(tmp_path / "x.npy", X)
    environment = dict(os.environ, TVM_USE_RUNTIME_LIB="1")
    names = [str(file), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    command = [sys.executable, "-W", "error", "-c", RUNTIME_ALONE, *names]
    subprocess.run(command, check=True, env=environment)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(), rtol=1e-4, atol=1e-4)


def test_a_decode_block_is_what_onnx_runtime_makes_of_it(tmp_path: Path) -> None:
    file = tmp_path / "block.onnx"
    file.write_bytes(decode_block(Sizes(hidden=128, heads=4, groups=2, inner=256, past=31)))
    model = load_model(file)
    assert [spec.shape for spec in model.outputs] == [(1, 1, 128), (1, 2, 32, 32), (1, 2, 32, 32)]
    check = verify_model(model, compile_model(model, HOST))
    assert check.ok, check
