# SPDX-License-Identifier: Apache-2.0
"""A model as an operator of ggml: built against a real ggml, run in its graphs, timed beside it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from export_checks import RISCV_CC, WARNINGS, call, emulator, need_riscv, run
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from kope_tvm.c_package.toolset import Toolset
from kope_tvm.errors import UsageError
from kope_tvm.exporters.ggml import Ggml
from kope_tvm.exporting import exportable
from kope_tvm.ggml_blocks import Q4_0
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.model import Model, extract_tasks, load_model
from kope_tvm.operators import parse_operator
from kope_tvm.schedules import matmul_ggml_rvv, matmul_ggml_x86

pytestmark = pytest.mark.e2e

INT8 = "op:matmul_q4_0_q8_0:m=2,n=512,k=512"
PLAIN_LIBC = {"aligned_alloc", "free", "memmove", "__tls_get_addr", "_GLOBAL_OFFSET_TABLE_"}
TWO_OUTPUTS = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.nn.relu(x)
            z = R.abs(x)
            R.output(y, z)
        return (y, z)
"""


@pytest.fixture(scope="module")
def ggml(project_dir: Path) -> Path:
    """Where ggml is installed."""
    home = project_dir / "build" / "local-model"
    found = next(home.glob("lib/python*/site-packages/include/ggml.h"), None)
    if found is None or not shutil.which("cmake"):
        pytest.skip("no llama-cpp-python with ggml's headers, or no cmake: make local-model debian")
    return found.parents[1]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Q4_0 weights and rows in int8, by the rule's own guess."""
    return exported(load_model(INT8), tmp_path_factory.mktemp("product"))


def exported(model: Model, base: Path, target: str = "host") -> Path:
    out = base / "out"
    out.mkdir()
    found = exportable(model, load_target(target), records(model, base / "work", target))
    Ggml("k", found.evidence).export(found.artifact, out)
    return out


def records(model: Model, work_dir: Path, target: str) -> Path:
    """A stock database of what the rule for ggml's blocks guesses first."""
    work_dir.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    spec = load_target(target)
    rule = matmul_ggml_rvv if spec.facts.isa == "rvv" else matmul_ggml_x86
    for _, mod, _ in extract_tasks(model, spec):
        for space in rule.schedule(mod["main"], spec):
            sch = Schedule(mod)
            space.trace.apply_to_schedule(sch, remove_postproc=False)
            args = ms.arg_info.ArgInfo.from_prim_func(mod["main"])
            workload = database.commit_workload(mod)
            record = ms.database.TuningRecord(sch.trace, workload, [1e-3], tvm_target(spec), args)
            database.commit_tuning_record(record)
    return work_dir


def built(folder: Path, ggml: Path) -> Path:
    where = [f"-DCMAKE_PREFIX_PATH={ggml}", f"-DCMAKE_BUILD_RPATH={ggml}/lib"]
    flags = "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"
    run("cmake", "-S", "example", "-B", "build", flags, *where, cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def program(product: Path, ggml: Path) -> Path:
    return built(product, ggml)


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_it_is_right_in_a_graph_of_ggml(program: Path, num_threads: int) -> None:
    assert "right" in run("build/main", num_threads, cwd=program)


def test_it_is_as_far_off_as_ggml_which_rounds_rows_to_int8_too(program: Path) -> None:
    errors = compared(run("build/compare", 2, 21, cwd=program))
    assert set(errors) == {"kope", "ggml", "ggml_repacked"}
    assert errors["kope"] == pytest.approx(errors["ggml"], rel=0.5)
    assert errors["kope"] < 0.05


def test_float_rows_are_a_thousand_times_nearer(ggml: Path, tmp_path: Path) -> None:
    folder = exported(load_model("op:matmul_q8_0:m=2,n=64,k=512"), tmp_path)
    errors = compared(run("build/compare", 2, 21, cwd=built(folder, ggml)))
    assert errors["kope"] < 1e-5 < 1e-3 < errors["ggml"]


def compared(said: str) -> dict[str, float]:
    return {name: float(error) for name, error in re.findall(r"(\w+): error (\S+),", said)}


def test_what_threads_cannot_share_one_of_them_computes(ggml: Path, tmp_path: Path) -> None:
    folder = exported(load_model("op:relu:m=4,n=8"), tmp_path)
    assert "compute_run, 1, NULL" in (folder / "ggml" / "k_ggml.c").read_text()
    assert not (folder / "example" / "compare.c").exists()
    assert "right" in run("build/main", 2, cwd=built(folder, ggml))


def test_the_readme_runs_as_written(product: Path, ggml: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(product, tmp_path / "out", ignore=shutil.ignore_patterns("build"))
    (snippet,) = re.findall(r"```sh\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    path = f"{ggml.parents[2] / 'bin'}{os.pathsep}{os.environ['PATH']}"
    said = run("sh", "-e", "-c", snippet, cwd=folder, PATH=path)
    assert {"kope", "ggml", "ggml_repacked"} <= set(compared(said))


def test_shares_are_disjoint_and_make_the_whole(product: Path) -> None:
    rows, weights = arrays(INT8)
    whole, first, second = (np.full((2, 512), np.nan, np.float32) for _ in range(3))
    library = ctypes.CDLL(str(product / "lib" / "libk.so"))
    for out, number, count in ((whole, 0, 1), (first, 0, 2), (second, 1, 2)):
        library.k_share(number, count)
        assert call(library, [rows, weights, out]) == 0
    assert (np.isnan(first) ^ np.isnan(second)).all()
    assert np.isnan(first).sum() == whole.size // 2
    np.testing.assert_array_equal(np.where(np.isnan(first), second, first), whole)
    expected = parse_operator(INT8).reference(rows.astype(np.float64), weights)
    np.testing.assert_allclose(whole, expected, atol=1e-4 * np.abs(expected).max())


def test_tensors_may_begin_at_any_element(product: Path) -> None:
    rows, weights = arrays(INT8)
    library = ctypes.CDLL(str(product / "lib" / "libk.so"))
    library.k_share(0, 1)
    found = []
    for offset in (0, 4, 20):
        moved = [shifted(each, offset) for each in (rows, weights, np.zeros((2, 512), np.float32))]
        assert call(library, moved) == 0
        found.append(moved[-1].copy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def shifted(array: np.ndarray, offset: int) -> np.ndarray:
    """The same array, `offset` bytes behind a multiple of 64."""
    room = np.zeros(array.nbytes + 128, np.uint8)
    begin = -room.ctypes.data % 64 + offset
    made = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def arrays(spec: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    row, weights = (one.shape for one in parse_operator(spec).inputs)
    packed = rng.integers(0, 256, weights, dtype=np.uint8)
    scales = rng.uniform(-0.1, 0.1, weights[:2]).astype(np.float16)
    packed[..., :2] = scales.view(np.uint8).reshape(*weights[:2], 2)
    assert weights[2] == Q4_0.num_bytes
    return rng.standard_normal(row).astype(np.float32), packed


def test_it_needs_libc_and_libm_and_shows_its_own_names_only(product: Path) -> None:
    tools = Toolset(os.uname().machine)
    library = product / "lib" / "k.o"
    assert tools.defined(library) == {"k_run", "k_message", "k_made_by", "k_share"}
    assert tools.undefined(library) <= PLAIN_LIBC | {"memset", "memcpy"}


def test_what_is_no_operator_of_ggml_is_refused_by_name(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(TWO_OUTPUTS)
    with pytest.raises(UsageError, match="2 outputs; expected at most 10 inputs and one output"):
        exported(load_model(script), tmp_path)
    (tmp_path / "q").mkdir()
    with pytest.raises(UsageError, match=r"ggml has no such type; expected one of float32"):
        exported(load_model("op:matmul_int8:m=4,n=4,k=4,dtype=uint8"), tmp_path / "q")


@pytest.mark.parametrize(
    "spec", ["op:matmul_q4_0:m=1,n=32,k=64", "op:matmul_q8_0_q8_0:m=1,n=32,k=64"]
)
def test_riscv_kernels_are_right_and_their_plug_compiles(
    spec: str, tmp_path: Path, project_dir: Path
) -> None:
    need_riscv()
    exported(load_model(spec), tmp_path, target="spacemit-k1")
    (tmp_path / "call.c").write_text(CALL)
    bound = parse_operator(spec)
    rng = np.random.default_rng(1)
    rows, weights = (np.zeros(each.shape, each.dtype) for each in bound.inputs)
    rows[...] = rng.standard_normal(rows.shape)
    weights[...] = rng.integers(0, 256, weights.shape)
    for name, array in (("rows", rows), ("weights", weights)):
        array.tofile(tmp_path / name)
    command = [RISCV_CC, *WARNINGS, "-static", "-Iout/include", "call.c", "out/lib/libk.a", "-lm"]
    run(*command, "-o", "call", cwd=tmp_path)
    run(*emulator(256).split(), "./call", cwd=tmp_path)
    found = np.fromfile(tmp_path / "found", np.float32).reshape(bound.output.shape)
    expected = bound.reference(rows.astype(np.float64), weights)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    headers = next(
        (project_dir / "build" / "local-model").glob("lib/python*/*/include/ggml.h"), None
    )
    if headers is not None:
        include = ["-Iout/include", f"-I{headers.parent}"]
        run(RISCV_CC, "-fsyntax-only", "-Wall", *include, "out/ggml/k_ggml.c", cwd=tmp_path)


CALL = """
#include <stdio.h>
#include <stdlib.h>
#include "k.h"
static void* whole(const char* name) {
  FILE* file = fopen(name, "rb");
  void* made = malloc(1 << 16);
  if (!file || !fread(made, 1, 1 << 16, file)) exit(2);
  fclose(file);
  return made;
}
int main(void) {
  static float out[32];
  int code = k_run(whole("rows"), whole("weights"), out);
  FILE* file = fopen("found", "wb");
  fwrite(out, sizeof *out, 32, file);
  fclose(file);
  return code;
}
"""
