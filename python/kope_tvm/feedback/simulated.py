# SPDX-License-Identifier: Apache-2.0
"""What the simulated machine counts while it runs a scheduled module, and llvm-mca's word on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from kope_tvm.comparison import random_inputs
from kope_tvm.device.program.link import Program, link
from kope_tvm.device.simulate.opinions.mca import mca_reports
from kope_tvm.device.simulate.program import run_linked
from kope_tvm.errors import KopeError
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import tvm_target
from kope_tvm.target import TargetSpec
from kope_tvm.tensor_spec import TensorSpec

_SEED = 3
_ENTRY = "main"


def simulated_lines(mod: tvm.IRModule, spec: TargetSpec) -> tuple[str, ...]:
    """Counters of one warm call, then the hottest piece of code by `llvm-mca`.

    What cannot be had is left out: a function that takes too long, a tool that is not installed.
    Compiles in this process, as `machine_code.summary` does.
    """
    try:
        return tuple(_lines(program_of(mod, spec), spec))
    except (KopeError, TypeError, ValueError):  # A dtype that NumPy or the program knows not.
        return ()


def program_of(mod: tvm.IRModule, spec: TargetSpec) -> Program:
    """A module's `main`, compiled as it is timed, with made-up inputs; one warming call.

    Raises KopeError where there is no such function, or a shape is symbolic.
    """
    timed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    specs = [_tensor(str(number), one) for number, one in enumerate(timed[_ENTRY].params)]
    arguments = tuple(random_inputs(specs, _SEED).values())
    written = (False,) * len(arguments)  # Nothing has to come back: it was checked elsewhere.
    made = object_bytes(timed, tvm_target(spec))
    return Program(made, arguments, written, spec.facts.num_cores, num_warm=1)


def _lines(program: Program, spec: TargetSpec) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        folder = Path(scratch)
        made, profile = link(program, folder), folder / "profile"
        yield run_linked(made, spec, folder, profile).regions[-1].line
        try:
            yield mca_reports(made, profile)[0].line
        except KopeError:  # Without LLVM 22 the counters alone are told.
            return


def _tensor(name: str, param: Any) -> TensorSpec:
    if not isinstance(param.ty, tvm.tirx.BufferType):
        raise KopeError(f"parameter {param.name} is {param.ty}; expected a tensor")
    if not all(isinstance(extent, int | tvm.tirx.IntImm) for extent in param.shape):
        raise KopeError(f"parameter {param.name} has the symbolic shape {list(param.shape)}")
    return TensorSpec(name, tuple(int(extent) for extent in param.shape), str(param.dtype))
