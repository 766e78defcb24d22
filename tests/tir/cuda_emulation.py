# SPDX-License-Identifier: Apache-2.0
"""Runs TVM's CUDA source on the CPU, threads as fibers: barriers and shuffles as on a GPU."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import s_tir, tirx
from tvm_ffi import structural_walk

from kope_tvm.machine import tvm_target
from kope_tvm.target import TargetSpec

_HEADER = Path(__file__).with_name("cuda_emulation.h")
_KERNEL = re.compile(r'extern "C" __global__ void [^;{]*?(\w+)\(([^)]*)\)\s*\{')
_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")

Array = npt.NDArray[Any]


def cuda_source(mod: tvm.IRModule, target: TargetSpec) -> str:
    """The kernels that TVM writes for a module, without the preamble."""
    built = tvm.compile(mod, target=tvm_target(target))
    text = "\n".join(str(one.inspect_source()) for one in built.mod.imports)
    return text[text.index('extern "C" __global__') :]


def emulated(mod: tvm.IRModule, arrays: Sequence[Array], target: TargetSpec) -> Array:
    """The last parameter of the module's `main` after all of its kernels ran."""
    func = mod["main"]
    source = cuda_source(mod, target)
    values = [np.ascontiguousarray(array) for array in arrays]
    pointers = {f"{param.name}_ptr": v for param, v in zip(func.params, values, strict=True)}
    kernels = [(str(m[1]), _names(m[2])) for m in _KERNEL.finditer(source)]
    for name in (name for _, names in kernels for name in names if name not in pointers):
        pointers[name] = np.full(_elements(func, name.removesuffix("_ptr")), np.nan, np.float32)
    library = _built(source, kernels, _launches(func))
    library.run_all(*(ctypes.c_void_p(pointers[n].ctypes.data) for n in sorted(pointers)))
    return values[-1]


def _names(parameters: str) -> list[str]:
    return [part.split()[-1].lstrip("*") for part in parameters.split(",")]


def _elements(func: tirx.PrimFunc, name: str) -> int:
    """Of a temporary in device memory."""
    found: list[s_tir.SBlock] = []
    structural_walk(func.body, [(s_tir.SBlock, found.append)], order="pre")
    buffers = [buffer for block in found for buffer in block.alloc_buffers]
    sizes = [
        np.prod([int(n) for n in b.shape])
        for b in buffers
        if re.sub(r"\W", "_", str(b.name)) == name
    ]
    return int(sizes[0])


def _launches(func: tirx.PrimFunc) -> list[dict[str, int]]:
    """Extents of blocks and threads, a kernel."""
    body = func.body.block.body if isinstance(func.body, s_tir.SBlockRealize) else func.body
    nests = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    return [_extents(nest) for nest in nests]


def _extents(nest: Any) -> dict[str, int]:
    loops: list[tirx.For] = []
    structural_walk(nest, [(tirx.For, loops.append)], order="pre")
    bound = [loop for loop in loops if loop.thread_binding is not None]
    return {str(loop.thread_binding.thread_tag): int(loop.extent) for loop in bound}


def _built(
    source: str, kernels: list[tuple[str, list[str]]], launches: list[dict[str, int]]
) -> ctypes.CDLL:
    # declarations without a body, and dynamic shared memory as an array of the largest size
    source = re.sub(r'extern "C" __global__ [^;{]*;', "", source)
    source = re.sub(r"extern __shared__(.*?)\[\];", r"static\1[232448];", source)
    source = re.sub(r"__shared__ (alignas\(\d+\))?", r"\1 static ", source)
    source = re.sub(r"static (alignas\(\d+\))", r"\1 static", source)
    names = sorted({name for _, parameters in kernels for name in parameters})
    given = ", ".join(f"void* {name}_" for name in names)
    lines = [f'extern "C" void run_all({given}) {{']
    lines += [f"  static void* {name}; {name} = {name}_;" for name in names]
    for (kernel, parameters), launch in zip(kernels, launches, strict=True):
        sizes = [launch.get(axis, 1) for axis in _AXES]
        call = ", ".join(
            f"(decltype(argument({kernel}, N<{i}>()))){name}" for i, name in enumerate(parameters)
        )
        grid, block = (", ".join(map(str, part)) for part in (sizes[:3], sizes[3:]))
        lines.append(f"  run_grid({{{grid}}}, {{{block}}}, [] {{ {kernel}({call}); }});")
    lines.append("}")
    deduced = (
        "template <int I> struct N {};\n"
        "template <int I, typename... A> typename std::tuple_element<I, std::tuple<A...>>::type "
        "argument(void (*)(A...), N<I>);\n"
    )
    text = f'#include "{_HEADER}"\n#include <tuple>\n{source}\n{deduced}' + "\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        code.write_text(text)
        subprocess.run(
            [
                "g++",
                "-std=c++17",
                "-O1",
                "-fno-strict-aliasing",
                "-w",
                "-shared",
                "-fPIC",
                "-o",
                library,
                code,
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        return ctypes.CDLL(str(library))
