# SPDX-License-Identifier: Apache-2.0
"""A model as a C library: built, linked, run and checked without TVM, here and as a board."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from kope_tvm import registry
from kope_tvm.c_package.toolset import Toolset
from kope_tvm.comparison import compare
from kope_tvm.errors import UsageError
from kope_tvm.evidence import example_input
from kope_tvm.exporters.c import C
from kope_tvm.exporting import exportable
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.model import Model, extract_tasks, load_model
from kope_tvm.operators import parse_operator

pytestmark = pytest.mark.e2e

MATMUL = "op:matmul:m=64,n=48,k=32"
PLAIN_LIBC = {"_GLOBAL_OFFSET_TABLE_", "__tls_get_addr", "aligned_alloc", "free", "memmove"}
THREADS = (
    {f"pthread_{each}" for each in ("create", "join")}
    | {
        f"pthread_{kind}_{verb}"
        for kind, verbs in {
            "mutex": ("lock", "trylock", "unlock"),
            "cond": ("broadcast", "signal"),
        }.items()
        for verb in verbs
    }
    | {"pthread_cond_wait"}
)
WARNINGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
QEMU = "qemu-riscv64"
RISCV_CC = "riscv64-linux-gnu-gcc"
TWO_LAYERS = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            s = R.add(R.matmul(h, w), R.const(0.5, "float32"))
            y = R.nn.softmax(s)
            R.output(h, y)
        return (y, h, x, y)
"""
BRANCH = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        if c:
            y = R.nn.relu(x)
        else:
            y = R.abs(x)
        return y
"""
TWO_FUNCTIONS = """
from tvm.script import ir as I, tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.sblock("add"):
                v = T.axis.spatial(8, i)
                B[v] = T.Cast("int32", A[v]) + 1

    @T.prim_func(s_tir=True)
    def twice(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float16")):
        for i in range(8):
            with T.sblock("twice"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float16(2)
"""


def exported(
    model: Model, out: Path, *, target: str = "host", work_dir: Path | None = None, name: str = "k"
) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    found = exportable(model, load_target(target), work_dir)
    C(name, found.evidence).export(found.artifact, out)
    return out


def parallel_records(model: Model, work_dir: Path) -> Path:
    """A stock database with the outermost loop of every block in parallel."""
    work_dir.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    spec = load_target("host")
    for _, mod, _ in extract_tasks(model, spec):
        sch = Schedule(mod)
        for block in sch.get_child_blocks(sch.get_sblock("root")):
            sch.parallel(sch.get_loops(block)[0])
        args = ms.arg_info.ArgInfo.from_prim_func(mod["main"])
        workload = database.commit_workload(mod)
        target = tvm.target.Target(dict(spec.tvm_target))
        database.commit_tuning_record(
            ms.database.TuningRecord(sch.trace, workload, [1e-3], target, args)
        )
    return work_dir


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shared(folder: Path, name: str = "k") -> ctypes.CDLL:
    run("gcc", "-shared", "-o", "lib.so", f"lib/{name}.o", "-lm", "-pthread", cwd=folder)
    return ctypes.CDLL(str(folder / "lib.so"))


def aligned(array: np.ndarray) -> np.ndarray:
    room = np.zeros(array.nbytes + 64, np.uint8)
    begin = -room.ctypes.data % 64
    made = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def call(library: ctypes.CDLL, arrays: Sequence[np.ndarray], function: str = "k_run") -> int:
    return int(getattr(library, function)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matmul with a parallel loop."""
    base = tmp_path_factory.mktemp("tuned")
    model = load_model(MATMUL)
    work_dir = parallel_records(model, base / "work")
    return exported(model, base / "out", work_dir=work_dir)


def test_parallel_kernel_is_right_and_needs_libc_libm_and_threads_only(tuned: Path) -> None:
    assert "largest error" in run("make", "check", cwd=tuned)
    undefined = Toolset(os.uname().machine).undefined(tuned / "lib" / "k.o")
    assert undefined - PLAIN_LIBC - {"memset", "memcpy"} == THREADS


def test_only_its_own_names_are_visible(tuned: Path) -> None:
    shown = Toolset(os.uname().machine).defined(tuned / "lib" / "k.o")
    assert shown == {"k_run", "k_message", "k_made_by", "k_set_threads"}


def test_it_carries_what_made_it(tuned: Path) -> None:
    header = (tuned / "include" / "k.h").read_text()
    assert header.startswith("// op:matmul:m=64,n=48,k=32,dtype=float32 for host, made by kope-tvm")
    made_by = ctypes.c_char * 4096
    text = made_by.in_dll(shared(tuned), "k_made_by").value.decode()
    assert all(f"// {line}" in header for line in text.splitlines())
    assert re.search(r"^function main: task [0-9a-f]{16}, by decisions", text, re.MULTILINE)
    assert "experience: 1 of 1 functions tuned, 0 fell back" in text
    assert "model gate: passed: against" in text


def test_sanitizers_find_nothing(tuned: Path) -> None:
    sources = ["example/main.c", "src/k.c", "src/runtime.c", "src/kernels.o"]
    flags = [*WARNINGS, "-fsanitize=address,undefined", "-fno-sanitize-recover", "-pthread"]
    defines = ["-Iinclude", "-DKOPE_THREADS=3"]
    run("gcc", *flags, *defines, *sources, "-lm", "-o", "checked", cwd=tuned)
    assert ": right" in run(tuned / "checked", cwd=tuned)


def test_serial_build_of_the_sources_needs_no_threads(tuned: Path) -> None:
    sources = ["example/main.c", "src/k.c", "src/runtime.c", "src/kernels.o"]
    run("gcc", *WARNINGS, "-Iinclude", "-DKOPE_SERIAL", *sources, "-lm", "-o", "serial", cwd=tuned)
    assert ": right" in run(tuned / "serial", cwd=tuned)
    listing = run("nm", "-u", "serial", cwd=tuned)
    assert "pthread" not in listing


def test_many_threads_may_call_it_at_once(tuned: Path) -> None:
    library = shared(tuned)
    library.k_set_threads(3)
    left, right = (example_input(spec, i) for i, spec in enumerate(load_model(MATMUL).inputs))

    def calls(seed: int) -> bool:
        arrays = [aligned(left * seed), aligned(right), aligned(np.zeros((64, 48), np.float32))]
        codes = [call(library, arrays) for _ in range(50)]
        return not any(codes) and compare([arrays[2]], [(left * seed) @ right]).ok

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(1, 9)))


def test_bad_pointers_are_codes_with_words(tuned: Path) -> None:
    library = shared(tuned)
    library.k_message.restype = ctypes.c_char_p
    good = aligned(np.zeros((64, 64), np.float32))
    missing = library.k_run(None, ctypes.c_void_p(good.ctypes.data), None)
    assert (missing, library.k_message(missing)) == (1, b"a pointer is NULL")
    odd = call(library, [good, good.reshape(-1)[1:], good])
    assert odd == 2
    assert library.k_message(odd).startswith(b"a pointer is not a multiple of 64")
    assert library.k_message(99) == b"no such code"


def test_two_libraries_go_into_one_program(tuned: Path, tmp_path: Path) -> None:
    other = exported(load_model("op:relu:m=4,n=8"), tmp_path / "other", name="other")
    (tmp_path / "main.c").write_text(
        '#include "k.h"\n#include "other.h"\nint main(void) {\n'
        "  _Alignas(64) static float x[32], y[32];\n  x[0] = -3, x[1] = 2;\n"
        "  if (other_run(x, y) || k_run(0, 0, 0) != 1) return 1;\n"
        "  return y[0] == 0 && y[1] == 2 ? 0 : 2;\n}\n"
    )
    libraries = [tuned / "lib" / "libk.a", other / "lib" / "libother.a", "-lm", "-pthread"]
    includes = [f"-I{tuned / 'include'}", f"-I{other / 'include'}"]
    run("gcc", *WARNINGS, *includes, "main.c", *libraries, "-o", "main", cwd=tmp_path)
    run(tmp_path / "main", cwd=tmp_path)


def test_whole_relax_model_is_one_function(tmp_path: Path) -> None:
    path = tmp_path / "layers.py"
    path.write_text(TWO_LAYERS)
    model = load_model(path)
    out = exported(model, tmp_path / "out")
    run("make", "check", cwd=out)
    assert "float* output_0,  // output [8, 4]" in (out / "include" / "k.h").read_text()


def test_branches_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "branch.py"
    path.write_text(BRANCH)
    with pytest.raises(UsageError, match=r"^branch: .* has no C: expected calls of PrimFuncs"):
        exported(load_model(path), tmp_path / "out")


def test_every_primfunc_of_a_module_is_a_function(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_FUNCTIONS)
    out = exported(load_model(path), tmp_path / "out")
    said = run("make", "check", cwd=out).splitlines()[-2:]
    assert [line.partition(",")[0] for line in said] == ["run: B: 8 values", "twice: B: 8 values"]
    library = shared(out)
    numbers = aligned(np.arange(-4, 4, dtype=np.int8)), aligned(np.zeros(8, np.int32))
    assert call(library, numbers) == 0
    assert list(numbers[1]) == list(range(-3, 5))
    halves = aligned(np.full(8, 1.5, np.float16)), aligned(np.zeros(8, np.float16))
    assert call(library, halves, "k_twice") == 0
    assert list(halves[1]) == [3.0] * 8


def test_scheduled_matmul_is_right_on_an_emulated_board(tmp_path: Path) -> None:
    need_riscv()
    spec = load_target("spacemit-k1")
    bound = parse_operator("op:matmul:m=64,n=64,k=64,dtype=float32")
    with tvm_target(spec):
        sch = registry.load("schedules", "matmul_rvv")(bound.tir()["main"], spec)[0]
    out = exported(load_model(sch.mod), tmp_path / "out", target="spacemit-k1", name="matmul")
    said = run(
        "make", "check", f"CC={RISCV_CC}", "LDFLAGS=-static", f"RUN={emulator(256)}", cwd=out
    )
    assert said.splitlines()[-1].endswith(": right")
    listing = run("riscv64-linux-gnu-objdump", "-d", "src/kernels.o", cwd=out)
    assert "vfmacc.vf" in listing
    undefined = Toolset("riscv64").undefined(out / "lib" / "matmul.o")
    assert undefined - PLAIN_LIBC - {"memset", "memcpy"} - THREADS == set()


def blocks(project_dir: Path) -> list[str]:
    text = (project_dir / "docs" / "export.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_documented_commands_run_as_written(number: int, project_dir: Path, tmp_path: Path) -> None:
    snippet = blocks(project_dir)[number]
    if "riscv64" in snippet:
        need_riscv()
    if "cmake" in snippet and not shutil.which("cmake"):
        pytest.skip("no cmake on the path; Debian: apt install cmake")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = run("sh", "-e", "-c", snippet, cwd=tmp_path, PATH=path)
    assert ": right" in said
    assert "WRONG" not in said


def test_command_says_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = ("export", "c", "op:relu:m=4,n=8", "--target", "host", "-o", out, "--json")
    found = json.loads(run(sys.executable, "-m", "kope_tvm.cli", *order, cwd=tmp_path))
    assert found["name"] == "relu"
    assert "lib/librelu.a" in found["files"]
    assert all((out / file).is_file() for file in found["files"])


def need_riscv() -> None:
    for tool, package in ((RISCV_CC, "gcc-riscv64-linux-gnu"), (QEMU, "qemu-user")):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} on the path; Debian: apt install {package}")


def emulator(vlen_bits: int) -> str:
    return f"{QEMU} -cpu rv64,v=true,vlen={vlen_bits},elen=64,vext_spec=v1.0"
