# SPDX-License-Identifier: Apache-2.0
"""The library that ONNX Runtime loads: what it needs, its threads, its refusals, its README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

import onnx
import onnxruntime
from export_checks import need_riscv, parallel_records, run
from ort_sessions import exported, library_of, refusal_in_old, run_here, run_in_old, session_of

from kope_tvm.c_package.toolset import Toolset
from kope_tvm.errors import KopeError
from kope_tvm.exporters.onnxruntime import Onnxruntime
from kope_tvm.exporting import exportable
from kope_tvm.machine import load_target
from kope_tvm.model import load_model

pytestmark = pytest.mark.e2e

OWN = {"RegisterCustomOps"}
LIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""The last two are the loader, which is a part of libc."""
LEFT = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) % 7
RIGHT = np.arange(32 * 48, dtype=np.float32).reshape(32, 48) % 5
FEEDS = {"A": LEFT, "B": RIGHT}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matmul with a parallel loop; small integers, so that sums are exact."""
    base = tmp_path_factory.mktemp("tuned")
    model = load_model("op:matmul:m=64,n=48,k=32")
    work_dir = parallel_records(model, base / "work")
    folder: Path = exported(model, base / "out", work_dir=work_dir)
    return folder


@pytest.fixture(scope="module")
def any_size(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's own model, in which the operator may meet any shape."""
    flt = onnx.TensorProto.FLOAT
    edges = [
        onnx.helper.make_tensor_value_info(name, flt, shape)
        for name, shape in (("A", ["m", "k"]), ("B", ["k", "n"]), ("y", ["m", "n"]))
    ]
    nodes = [
        onnx.helper.make_node("k", ["A", "B"], ["c"], domain="kope.k"),
        onnx.helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "own", edges[:2], edges[2:])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("kope.k", 1)]
    path = tmp_path_factory.mktemp("own") / "own.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def needed(library: Path, readelf: str = "readelf") -> set[str]:
    listing = run(readelf, "-d", library, cwd=library.parent)
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listing))


def test_it_needs_libc_and_libm_only(tuned: Path) -> None:
    library = Path(library_of(tuned))
    assert needed(library) <= LIBC
    tools = Toolset(os.uname().machine)
    listing = tools.run("nm", ["-D", "--defined-only", library.name], tuned)
    assert {line.split()[-1] for line in listing.splitlines()} == OWN
    wanted = tools.run("nm", ["-D", "--undefined-only", library.name], tuned)
    assert not re.search(r"TVM|pthread|Ort", wanted)


def test_for_a_board_it_is_built_with_the_boards_tools(tmp_path: Path) -> None:
    need_riscv()
    model = load_model("op:relu:m=4,n=8")
    out = exported(model, tmp_path / "out", target="spacemit-k1", name="relu")
    library = out / "librelu_ort.so"
    assert needed(library, "riscv64-linux-gnu-readelf") <= {
        "libc.so.6",
        "libm.so.6",
        "ld-linux-riscv64-lp64d.so.1",
    }
    header = run("riscv64-linux-gnu-readelf", "-h", library, cwd=out)
    assert re.search(r"Machine: +RISC-V", header)


def test_it_is_right_in_both_versions_and_with_any_number_of_threads(tuned: Path) -> None:
    np.testing.assert_array_equal(run_in_old(tuned, FEEDS)[0], LEFT @ RIGHT)
    for threads in (1, 2, 3):
        found = session_of(tuned, threads=threads).run(None, FEEDS)
        np.testing.assert_array_equal(found[0], LEFT @ RIGHT)


def test_loops_run_on_the_sessions_threads(tmp_path: Path) -> None:
    """Threads that do not spin use the processor only for loops: here for half of them."""
    model = load_model("op:matmul:m=256,n=256,k=256")
    folder = exported(model, tmp_path, work_dir=parallel_records(model, tmp_path / "work"))
    script = f"""
import os
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
options.register_custom_ops_library({library_of(folder)!r})
before = set(os.listdir("/proc/self/task"))
session = onnxruntime.InferenceSession("model.onnx", options)
one, = set(os.listdir("/proc/self/task")) - before
ones = np.ones((256, 256), np.float32)
for _ in range(100):
    session.run(None, {{"A": ones, "B": ones}})
assert set(os.listdir("/proc/self/task")) == before | {{one}}
def ticks(thread):
    return sum(map(int, open(f"/proc/self/task/{{thread}}/stat").read().split()[13:15]))
print(ticks(one))
"""
    done = run(sys.executable, "-c", script, cwd=folder, OPENBLAS_NUM_THREADS="1")
    assert int(done) >= 5


def test_many_threads_may_run_a_session_at_once(tuned: Path) -> None:
    session = session_of(tuned)

    def right(factor: int) -> bool:
        feeds = {"A": LEFT * factor, "B": RIGHT}
        wanted = LEFT @ RIGHT * factor
        return all(np.array_equal(session.run(None, feeds)[0], wanted) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(1, 9)))


def test_two_libraries_go_into_one_session(tuned: Path, tmp_path: Path) -> None:
    other = exported(load_model("op:relu:m=4,n=8"), tmp_path / "other", name="other")
    session = session_of(other, tuned)
    (found,) = session.run(None, {"X": np.full((4, 8), -2, np.float32)})
    assert not found.any()


def test_inputs_may_lie_anywhere(tuned: Path) -> None:
    room = np.zeros(LEFT.size + 1, np.float32)
    moved = room[1:].reshape(LEFT.shape)
    moved[...] = LEFT
    np.testing.assert_array_equal(run_here(tuned, {"A": moved, "B": RIGHT})[0], LEFT @ RIGHT)


def test_another_shape_is_a_status_in_words(tuned: Path, any_size: Path) -> None:
    session = session_of(tuned, model=any_size)
    wrong = {"A": LEFT[:3], "B": RIGHT}
    words = "kope.k::k: input 'A' has shape [3, 32]; expected [64, 32], for which it is compiled"
    with pytest.raises(Exception, match=re.escape(words)):
        session.run(None, wrong)
    assert words in refusal_in_old(tuned, wrong, any_size)
    np.testing.assert_array_equal(session.run(None, FEEDS)[0], LEFT @ RIGHT)


def test_another_dtype_is_refused_with_the_model(tuned: Path, any_size: Path) -> None:
    model = onnx.load(any_size)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    other = any_size.with_name("int64.onnx")
    onnx.save(model, other)
    with pytest.raises(Exception, match=r"Type 'tensor\(int64\)' of input parameter \(A\)"):
        session_of(tuned, model=other)


def test_it_carries_what_made_it(tuned: Path) -> None:
    model = onnx.load(tuned / "model.onnx")
    made_by = {each.key: each.value for each in model.metadata_props}["made_by"].splitlines()
    assert made_by[0].startswith("op:matmul:m=64,n=48,k=32,dtype=float32 for host, made by kope")
    assert "experience: 1 of 1 functions tuned, 0 fell back" in made_by
    head = (tuned / "src" / "kope_ops.h").read_text()
    readme = (tuned / "README.md").read_text()
    assert all(f"// {line}\n" in head and f"    {line}\n" in readme for line in made_by)


def test_an_export_that_computes_other_values_is_refused(tmp_path: Path) -> None:
    """Ones added to what the untuned build computed stand for a library that is wrong by one."""
    found = exportable(load_model("op:relu:m=4,n=8"), load_target("host"), None)
    (example,) = found.evidence.examples
    outputs = tuple(each + 1 for each in example.outputs)
    evidence = replace(found.evidence, examples=(replace(example, outputs=outputs),))
    with pytest.raises(KopeError, match=r"librelu_ort.so: .* other values .*: max_abs 1, "):
        Onnxruntime("relu", evidence).export(found.artifact, tmp_path)
    assert not (tmp_path / "librelu_ort.so").exists()


def test_python_of_its_readme_runs_as_written(tuned: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (tuned / "README.md").read_text(), re.DOTALL)
    assert run(sys.executable, "-c", code, cwd=tuned) == "matmul (64, 48) float32\n"


def test_c_of_its_readme_runs_as_written(tuned: Path, tmp_path: Path) -> None:
    """A wheel has the library that a release archive has, by its full name only."""
    found = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if not found:
        pytest.skip(f"the wheel of ONNX Runtime {onnxruntime.__version__} has no library for C")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (tmp_path / name).symlink_to(found[0])
    folder = tmp_path / "out"
    shutil.copytree(tuned, folder)
    (code,) = re.findall(r"```sh\n(.*?)```", (tuned / "README.md").read_text(), re.DOTALL)
    said = run("sh", "-e", "-c", code, cwd=folder, ORT=str(tmp_path))
    assert said.startswith("matmul: 615 values, largest error 0 of ")
    assert said.endswith(" allowed: right\n")
    shorter = subprocess.run(["./main", "none.so", "model.onnx"], cwd=folder, capture_output=True)
    assert shorter.returncode == 1
    assert b"none.so" in shorter.stderr
