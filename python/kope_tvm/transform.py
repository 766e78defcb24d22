# SPDX-License-Identifier: Apache-2.0
"""What a work_dir has learned as passes, for any pipeline of TVM's, and a pipeline of them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import tvm
from tvm import IRModule, relax
from tvm.target import Target

from kope_tvm.code_apart import set_apart
from kope_tvm.learned import Learned
from kope_tvm.machine import load_target
from kope_tvm.manifest import Coverage
from kope_tvm.prepack.constants import prepacked
from kope_tvm.target import TargetSpec

_LOG = logging.getLogger("kope_tvm")


@tvm.transform.module_pass(opt_level=0, name="kope.ApplyExperience")
class ApplyExperience:
    """Give every PrimFunc the fastest schedule, or the function in its place, on record.

    It goes where `MetaScheduleApplyDatabase` goes: after fusion, before TIR is lowered. For a
    model that was tuned as a Relax module that is behind `relax.get_pipeline("zero")`.
    """

    def __init__(self, work_dir: str | Path, target: str | TargetSpec | Target) -> None:
        """`target` names a known machine, or is one.

        Raises WorkDirError, when the pass runs, where the work_dir is another target's.
        """
        self.coverage = Coverage()
        """Of the module seen last."""
        self._work_dir = work_dir
        self._target = _target(target)

    def transform_module(self, mod: IRModule, _context: Any) -> IRModule:
        """The module with what was learned; says in the log what fell back."""
        applied, self.coverage = Learned.open(self._work_dir, self._target).apply(mod)
        _LOG.info("%s: %s", self._work_dir, self.coverage)
        for failure in self.coverage.failed:
            _LOG.warning("%s: %s", self._work_dir, failure)
        return applied


@tvm.transform.module_pass(opt_level=0, name="kope.PrepackConstants")
class PrepackConstants:
    """Lay constant weights out as scheduled functions want them; it goes behind the schedules."""

    def __init__(self, target: str | TargetSpec | Target) -> None:
        """`target` names a known machine, or is one."""
        self.packed: tuple[str, ...] = ()
        """Functions of the module seen last that take their weights packed."""
        self._target = _target(target)

    def transform_module(self, mod: IRModule, _context: Any) -> IRModule:
        """The module with what packs constants done."""
        made, self.packed = prepacked(mod, self._target)
        return made


@tvm.transform.module_pass(opt_level=0, name="kope.SetApart")
class SetApart:
    """Compile by itself what was scheduled for another form of code than the target's own."""

    def __init__(self, target: str | TargetSpec | Target) -> None:
        """`target` names a known machine, or is one."""
        self._target = _target(target)

    def transform_module(self, mod: IRModule, _context: Any) -> IRModule:
        """The module with those functions in libraries beside it; see `code_apart`."""
        return set_apart(mod, self._target)


def pipeline(work_dir: str | Path, target: str | TargetSpec | Target) -> Any:
    """TVM's build with what a work_dir has learned: `tvm.compile(mod, relax_pipeline=...)`.

    It takes a Relax module as it was imported, or after the pipeline `zero`. What kope's own build
    adds to TVM's lowering is `tir_pipeline="kope"`, which importing this makes known to TVM.
    """
    return tvm.transform.Sequential(
        [
            relax.get_pipeline("zero"),
            ApplyExperience(work_dir, target),
            PrepackConstants(target),
            SetApart(target),
            relax.get_pipeline("default_build"),
        ],
        name="kope.pipeline",
    )


def _target(target: str | TargetSpec | Target) -> Target:
    if isinstance(target, Target):
        return target
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    return Target(dict(spec.tvm_target))
