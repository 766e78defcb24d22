# SPDX-License-Identifier: Apache-2.0
"""What made a compiled model, function by function, for its manifest."""

from __future__ import annotations

from kope_tvm.extraction import as_task_module
from kope_tvm.features import features
from kope_tvm.feedback.roof import known_roof
from kope_tvm.manifest import Coverage, FunctionFacts, MadeBy
from kope_tvm.memory.location import default_path
from kope_tvm.model import Model
from kope_tvm.target import TargetSpec
from kope_tvm.toolchain import toolchain
from kope_tvm.versions import installed_version
from kope_tvm.workbench import state_of


def provenance(model: Model, target: TargetSpec, coverage: Coverage) -> MadeBy:
    """Versions, and of every function its task, its program, its work and its roof."""
    kope = installed_version("kope-tvm") or "from a checkout"
    made = zip(coverage.states, coverage.lanes, coverage.gains, strict=True)
    tuned = dict(zip(coverage.hit, made, strict=True))
    roof = known_roof(target, default_path().parent)
    functions = []
    for name in sorted((*coverage.hit, *coverage.fallback)):
        mod = as_task_module(model.mod[name])
        work = features(mod)
        state, lane, gain = tuned.get(name, ("", "", 0.0))
        roof_secs = roof.secs(work) if roof else 0.0
        functions.append(
            FunctionFacts(name, state_of(mod), state, lane, gain, work.flops, roof_secs)
        )
    return MadeBy(f"kope-tvm {kope}, {toolchain()}", tuple(functions))
