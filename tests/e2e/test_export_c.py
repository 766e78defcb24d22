# SPDX-License-Identifier: Apache-2.0
"""A model as a C library: built, linked, run and checked without TVM."""

from __future__ import annotations

import ctypes
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_checks import (
    PLAIN_LIBC,
    THREADS,
    TWO_FUNCTIONS,
    TWO_LAYERS,
    WARNINGS,
    aligned,
    call,
    exported,
    parallel_records,
    run,
    shared,
)

from kope_tvm.c_package.toolset import Toolset
from kope_tvm.comparison import compare
from kope_tvm.errors import UsageError
from kope_tvm.evidence import example_input
from kope_tvm.model import load_model
from kope_tvm.performance import Comparison
from kope_tvm.settled import Settled
from kope_tvm.tensor_spec import TensorSpec
from kope_tvm.workbench import state_of

pytestmark = pytest.mark.e2e

MATMUL = "op:matmul:m=64,n=48,k=32"
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


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matmul with a parallel loop."""
    base = tmp_path_factory.mktemp("tuned")
    model = load_model(MATMUL)
    work_dir = parallel_records(model, base / "work")
    found = Comparison(correct=True, suspicious=False, faster=True, gain=4.0, needed=1.03)
    Settled(work_dir).note(state_of(model.mod), 1, found)
    folder: Path = exported(model, base / "out", work_dir=work_dir)
    return folder


def test_parallel_kernel_is_right_and_needs_libc_libm_and_threads_only(tuned: Path) -> None:
    assert "largest error" in run("make", "--no-print-directory", "check", cwd=tuned)
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
    key = state_of(load_model(MATMUL).mod)
    assert f"function main: task {key}, by decisions; " in text
    assert "numerics and performance gates: passed at 4.00x the untuned function\n" in text
    assert re.search("^function main: its experiences are of state [0-9a-f]{16}$", text, re.M)
    assert "experience: 1 of 1 functions tuned, 0 fell back" in text
    assert "model gate: passed: against" in text


def test_sanitizers_find_nothing(tuned: Path) -> None:
    sources = ["example/main.c", "src/k.c", "src/kope_runtime.c", "src/kope_kernels.o"]
    flags = [*WARNINGS, "-fsanitize=address,undefined", "-fno-sanitize-recover", "-pthread"]
    defines = ["-Iinclude", "-DKOPE_THREADS=3"]
    run("gcc", *flags, *defines, *sources, "-lm", "-o", "checked", cwd=tuned)
    assert ": right" in run(tuned / "checked", cwd=tuned)


def test_serial_build_of_the_sources_needs_no_threads(tuned: Path) -> None:
    sources = ["example/main.c", "src/k.c", "src/kope_runtime.c", "src/kope_kernels.o"]
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
    run("make", "--no-print-directory", "check", cwd=out)
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
    said = run("make", "--no-print-directory", "check", cwd=out).splitlines()[-2:]
    assert [line.partition(",")[0] for line in said] == ["run: B: 8 values", "twice: B: 8 values"]
    library = shared(out)
    numbers = aligned(np.arange(-4, 4, dtype=np.int8)), aligned(np.zeros(8, np.int32))
    assert call(library, numbers) == 0
    assert list(numbers[1]) == list(range(-3, 5))
    halves = aligned(np.full(8, 1.5, np.float16)), aligned(np.zeros(8, np.float16))
    assert call(library, halves, "k_twice") == 0
    assert list(halves[1]) == [3.0] * 8


def test_onnx_model_equals_onnx_runtime(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the Python package onnx")
    runtime = pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")
    path = tmp_path / "net.onnx"
    onnx.save(convolutional(onnx), path)
    out = exported(load_model(path), tmp_path / "out")
    image = example_input(TensorSpec("image", (1, 3, 16, 16), "float32"), 0)
    arrays = aligned(image), aligned(np.zeros((1, 5), np.float32))
    assert call(shared(out), arrays) == 0
    expected = runtime.InferenceSession(path).run(None, {"image": image})
    assert compare([arrays[1]], expected).ok
    assert (out / "src" / "kope_constants.bin").stat().st_size >= 4 * (4 * 27 + 4 + 5 * 256)


def convolutional(onnx: Any) -> Any:
    """Convolution, pooling and a dense layer, their weights inside."""
    rng = np.random.default_rng(4)
    weights = {"kernel": (4, 3, 3, 3), "bias": (4,), "dense": (256, 5)}
    nodes = [
        ("Conv", ["image", "kernel", "bias"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Flatten", ["p"], ["f"], {}),
        ("MatMul", ["f", "dense"], ["m"], {}),
        ("Softmax", ["m"], ["scores"], {}),
    ]
    helper = onnx.helper
    edge = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("image", [1, 3, 16, 16]), ("scores", [1, 5]))
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, ins, outs, **attrs) for kind, ins, outs, attrs in nodes],
        "net",
        edge[:1],
        edge[1:],
        [
            onnx.numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)
