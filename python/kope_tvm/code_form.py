# SPDX-License-Identifier: Apache-2.0
"""What the target string says, chosen for each function: whose pipeline, and which vectors.

A schedule says it as annotations of a block, so that it is a knob like others and stands in
ordinary records; whoever does not know them compiles the function as the target says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.s_tir import SBlock, Schedule
from tvm.target import Target, codegen
from tvm.tirx import PrimFunc

from kope_tvm.space import FORMS, TUNING, VECTORS, Space

_KNOBS = {"tuning": (TUNING, (0.5, 0.5)), "vectors": (VECTORS, (0.9, 0.1))}
"""Annotation and odds of each of `TargetSpec.code_choices`; 0 is as the target says."""
_SCALABLE = "v"
_GENERIC = "generic"


@dataclass(frozen=True, order=True)
class CodeForm:
    """How one function's code differs from what the target says."""

    is_generic: bool = False
    """Instructions are ordered for no core in particular, of the same features."""
    is_scalable: bool = False
    """RISC-V vectors of no fixed length, masked."""

    def of(self, target: Target) -> Target:
        """The target string that says so."""
        if self == CodeForm():
            return target
        options = dict(target.export())
        features = [str(each) for each in options.get("mattr", ())]
        if self.is_generic:
            implied = sorted(str(each) for each in codegen.llvm_get_cpu_features(target))
            features = [f"+{each}" for each in implied] + features
            options["mcpu"] = _generic_cpu(str(options.get("mtriple", "")))
        if self.is_scalable and _is_riscv(target):
            features = [each for each in features if each[1:] != _SCALABLE] + [f"+{_SCALABLE}"]
        return Target({**options, "mattr": features})


def form_of(func: PrimFunc) -> CodeForm:
    """What a function's blocks ask for."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(SBlock, blocks.append)], order="pre")
    notes = [block.annotations for block in blocks]
    asked = {key for each in notes for key in FORMS if int(each.get(key, 0))}
    return CodeForm(is_generic=TUNING in asked, is_scalable=VECTORS in asked)


def form_of_all(funcs: Iterable[PrimFunc]) -> CodeForm:
    """What functions of one object ask for; as the target says, where they do not agree."""
    found = {form_of(func) for func in funcs}
    return found.pop() if len(found) == 1 else CodeForm()


def leave_open(sch: Schedule, choices: Iterable[str]) -> None:
    """Make knobs of the choices, at what the target says."""
    for name in choices:
        key, odds = _KNOBS[name]
        value = sch.sample_categorical((0, 1), odds, decision=0)
        sch.annotate(sch.get_sblock("root"), key, value)


def generically(space: Space) -> Space | None:
    """The space ordered for no core in particular; None where that is no knob of it."""
    knob = space.forms.get(TUNING)
    return space.turned({knob.index: 1}) if knob else None


def _is_riscv(target: Target) -> bool:
    return str(target.attrs.get("mtriple", "")).startswith("riscv")


def _generic_cpu(triple: str) -> str:
    arch = triple.partition("-")[0]
    return f"{_GENERIC}-rv{arch.removeprefix('riscv')}" if arch.startswith("riscv") else _GENERIC
