# SPDX-License-Identifier: Apache-2.0
"""The functions of a module in linalg, each run through MLIR and held against what TVM computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tvm import IRModule, tirx

from kope_tvm.compilation import compile_model
from kope_tvm.errors import KopeError
from kope_tvm.evidence import Example, example_input
from kope_tvm.extraction import as_task_module
from kope_tvm.machine import load_target
from kope_tvm.mlir.execution import Job, execute
from kope_tvm.mlir.exporting import TOLERANCE, distance
from kope_tvm.mlir.spelling import UnsayableError
from kope_tvm.mlir.tir_linalg import SaidFunction, said_function
from kope_tvm.model import load_model

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class SaidModule:
    """What of a module is linalg now, and why the rest is not."""

    functions: Mapping[str, SaidFunction]
    left_out: tuple[str, ...]
    """`name: reason`."""
    distance: float = field(default=0.0)
    """The largest between MLIR's results and TVM's."""


def said_module(mod: IRModule, examples: Sequence[Example]) -> SaidModule:
    """All PrimFuncs that linalg has words for; `examples` spares running some of them by TVM."""
    functions: dict[str, SaidFunction] = {}
    left_out: list[str] = []
    known = {each.function: each.outputs for each in examples}
    worst = 0.0
    for var, func in sorted(mod.functions.items(), key=lambda item: str(item[0].name_hint)):
        name = str(var.name_hint)
        if not isinstance(func, tirx.PrimFunc):
            continue
        try:
            said = said_function(name, func)
            worst = max(worst, _checked(name, func, said, known.get(name)))
            functions[name] = said
        except (UnsayableError, KopeError) as error:
            left_out.append(f"{name}: {' '.join(str(error).split())}")
    return SaidModule(functions, tuple(left_out), worst)


def _checked(name: str, func: tirx.PrimFunc, said: SaidFunction, known: Arrays | None) -> float:
    """How far MLIR's results are from TVM's; KopeError where that is too far."""
    model = load_model(as_task_module(func))
    inputs = [example_input(spec, number) for number, spec in enumerate(model.inputs)]
    if known is None:
        named = {spec.name: array for spec, array in zip(model.inputs, inputs, strict=True)}
        known = compile_model(model, load_target("host")).run(named)
    (have,) = execute(Job(said.text, function=name), [inputs]).outputs
    worst = max(distance(one, other) for one, other in zip(known, have, strict=True))
    if worst > TOLERANCE:
        raise KopeError(f"MLIR's result differs from TVM's by {worst:.1e}")
    return worst
