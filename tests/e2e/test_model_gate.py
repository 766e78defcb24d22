# SPDX-License-Identifier: Apache-2.0
"""A model that a work_dir makes wrong is compiled without what makes it wrong, and says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tvm
from click.testing import CliRunner, Result
from tvm.s_tir import Schedule, TensorIntrin
from tvm.s_tir import meta_schedule as ms
from tvm.script import tirx as T

from kope_tvm.artifact import Artifact
from kope_tvm.cli import main
from kope_tvm.comparison import random_inputs
from kope_tvm.machine import load_target
from kope_tvm.model import Model, extract_tasks, load_model
from kope_tvm.model_gate import proved_model
from kope_tvm.performance import Comparison
from kope_tvm.settled import Settled
from kope_tvm.workbench import state_of

pytestmark = pytest.mark.e2e

HOST = load_target("host")
TVM_HOST = tvm.target.Target(dict(HOST.tvm_target))
NUM_LAYERS = 5
SIZES = (32, 48, 64, 80, 96)
"""Of the layers' outputs, so that no two functions are the same."""
HALF = "kope_test_copies_half"


def _source() -> str:
    widths = (64, *SIZES)
    params = ", ".join(
        f'w{n}: R.Tensor(({widths[n]}, {widths[n + 1]}), "float32")' for n in range(NUM_LAYERS)
    )
    steps = "\n".join(
        f"            h{n + 1} = R.nn.relu(R.matmul(h{n}, w{n}))" for n in range(NUM_LAYERS)
    )
    return f"""
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(h0: R.Tensor((64, 64), "float32"), {params}):
        with R.dataflow():
{steps}
            y = R.nn.softmax(h{NUM_LAYERS})
            R.output(y)
        return y
"""


@T.prim_func(s_tir=True)
def _copy(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (8,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.sblock("copy"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]


@T.prim_func(s_tir=True)
def _copy_of_half(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (8,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            B[i] = A[i // 2]


@pytest.fixture
def layers(tmp_path: Path) -> Model:
    path = tmp_path / "layers.py"
    path.write_text(_source(), encoding="utf-8")
    return load_model(path)


def planted(model: Model, work_dir: Path, wrong: Sequence[str] = ()) -> dict[str, str]:
    """A stock work_dir with a record a function; that of some computes something else.

    Task keys by name.
    """
    TensorIntrin.register(HALF, _copy, _copy_of_half, override=True)
    work_dir.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    keys = {}
    for name, mod, _ in extract_tasks(model, HOST):
        sch = Schedule(mod)
        (first, *_) = sch.get_child_blocks(sch.get_sblock("root"))
        if name in wrong:
            _spoil(sch, first)
        else:
            sch.parallel(sch.get_loops(first)[0])
        args = ms.arg_info.ArgInfo.from_prim_func(mod["main"])
        workload = database.commit_workload(mod)
        record = ms.database.TuningRecord(sch.trace, workload, [1e-3], TVM_HOST, args)
        database.commit_tuning_record(record)
        keys[name] = state_of(mod)
    return keys


def _spoil(sch: Schedule, block: Any) -> None:
    """A legal trace, of an intrinsic that does something else than it says."""
    copy = sch.cache_read(block, 0, "global")
    inner = sch.split(sch.get_loops(copy)[-1], [None, 8])[1]
    sch.tensorize(inner, HALF)


def names_of(model: Model) -> list[str]:
    return sorted(name for name, _, _ in extract_tasks(model, HOST))


def test_the_one_function_to_blame_falls_back(layers: Model, tmp_path: Path) -> None:
    names = names_of(layers)
    assert len(names) == NUM_LAYERS + 1
    wrong = names[3]
    planted(layers, tmp_path / "work", [wrong])
    found = proved_model(layers, HOST, tmp_path / "work")
    assert found.check.ok
    assert found.artifact.coverage.fallback == (wrong,)
    (reason,) = found.artifact.coverage.failed
    assert reason.startswith(f"{wrong}: wrong in the model (max_abs ")
    assert reason.endswith("; compiled untuned")
    assert len(found.artifact.coverage.hit) == NUM_LAYERS


def test_several_to_blame_fall_back_and_no_other(layers: Model, tmp_path: Path) -> None:
    names = names_of(layers)
    wrong = [names[1], names[2], names[4]]
    planted(layers, tmp_path / "work", wrong)
    found = proved_model(layers, HOST, tmp_path / "work")
    assert found.check.ok
    assert found.artifact.coverage.fallback == tuple(wrong)
    assert len(found.artifact.coverage.failed) == len(wrong)


def test_a_right_model_is_timed_beside_the_untuned_one(layers: Model, tmp_path: Path) -> None:
    keys = planted(layers, tmp_path / "work")
    first, second, third, *_ = sorted(keys)
    settled = Settled(tmp_path / "work")
    accepted = Comparison(correct=True, suspicious=False, faster=True, gain=4.0, needed=1.03)
    refused = Comparison(correct=True, suspicious=False, faster=False, gain=1.01, needed=1.03)
    for name, comparison in ((first, accepted), (second, refused), (third, None)):
        settled.note(keys[name], 1, comparison)
    found = proved_model(layers, HOST, tmp_path / "work")
    assert found.artifact.coverage.gains == (4.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    beside = found.beside_untuned
    assert beside is not None
    assert beside.gain > 0
    assert beside.needed >= 1.03
    assert beside.faster == (beside.gain >= beside.needed)


def test_a_model_of_which_nothing_is_tuned_is_not_timed(layers: Model, tmp_path: Path) -> None:
    found = proved_model(layers, HOST, tmp_path)
    assert (found.artifact.coverage.hit, found.beside_untuned) == ((), None)
    assert found.check.ok


def _kope(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_the_command_says_who_fell_back_and_why_and_writes_what_is_right(
    layers: Model, tmp_path: Path
) -> None:
    wrong = names_of(layers)[2]
    planted(layers, tmp_path / "work", [wrong])
    command = ("compile", tmp_path / "layers.py", "--target", "host", "--work-dir")
    options = (tmp_path / "work", "-o", tmp_path / "layers.so")
    told = _kope(*command, *options)
    assert told.exit_code == 0, told.output
    assert f"5 of 6 functions tuned, 1 fell back\n  fell back: {wrong}\n" in told.stdout
    assert f"  failed: {wrong}: wrong in the model (max_abs " in told.stdout
    assert "functions: 1.00x of all 6, a fallback counted as 1.0; " in told.stdout
    assert "1.00x of the optimised, 0 of 6\nmodel: " in told.stdout
    loaded = Artifact.load(tmp_path / "layers.so")
    assert loaded.coverage.fallback == (wrong,)
    feed = random_inputs(layers.inputs, seed=9)
    assert loaded.run(feed)[0].sum() == pytest.approx(64, rel=1e-4), "64 rows of a softmax"


def test_as_json_both_means_are_there_and_the_gain_of_the_whole_model(tmp_path: Path) -> None:
    model = "op:relu_chain:m=8,n=32"
    planted(load_model(model), tmp_path / "work")
    told = _kope(
        *("compile", model, "--target", "host", "--work-dir", tmp_path / "work"),
        *("-o", tmp_path / "relu.so", "--json"),
    )
    shown = json.loads(told.stdout)
    assert shown["coverage"]["gains"] == [0.0]
    assert shown["coverage"]["speedup"] == {
        "optimised": [],
        "num_functions": 1,
        "num_optimised": 0,
        "of_all": 1.0,
        "of_optimised": 1.0,
    }
    assert shown["beside_untuned"]["correct"]
    assert shown["beside_untuned"]["gain"] > 0
