# SPDX-License-Identifier: Apache-2.0
"""A model compiled for export, with the evidence that travels with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tvm import IRModule

from kope_tvm.artifact import Artifact
from kope_tvm.compilation import compile_model
from kope_tvm.evidence import Evidence, Example, Workload, example_input
from kope_tvm.extraction import as_task_module
from kope_tvm.machine import load_target
from kope_tvm.model import Model, load_model
from kope_tvm.model_gate import proved_model
from kope_tvm.target import TargetSpec
from kope_tvm.toolchain import toolchain
from kope_tvm.versions import installed_version
from kope_tvm.workbench import state_of


@dataclass(frozen=True)
class Exportable:
    """What an exporter is given."""

    artifact: Artifact
    evidence: Evidence


def exportable(model: Model, target: TargetSpec, work_dir: Path | None) -> Exportable:
    """Compile a model; this machine's is proved, another's is proved by its example there."""
    if target.rpc_key or work_dir is None:
        artifact = compile_model(model, target, work_dir)
        reason = f"{target.name} is not this machine" if target.rpc_key else "nothing is tuned"
        gate = f"not run: {reason}; the example checks the build"
    else:
        proved = proved_model(model, target, work_dir)
        artifact, gate = proved.artifact, f"passed: {proved.check}"
    lines = (" ".join(line.split()) for line in _made_by(model, artifact, gate))
    host = load_target("host")
    is_untuned_here = model.is_relax and target == host and not artifact.coverage.hit
    examples = [_example(model, artifact)] if is_untuned_here else _examples(model, host)
    workload = Workload(model.mod, target)
    return Exportable(artifact, Evidence(tuple(lines), tuple(examples), model.onnx, workload))


def _made_by(model: Model, artifact: Artifact, gate: str) -> Iterator[str]:
    """What made it, a line a fact."""
    manifest, coverage = artifact.manifest, artifact.coverage
    version = installed_version("kope-tvm") or "from a checkout"
    yield f"{model.name} for {manifest.target_name}, made by kope-tvm {version} ({toolchain()})"
    yield f"target: {json.dumps(dict(manifest.tvm_target))}"
    yield f"experience: {coverage}"
    hits = (coverage.hit, coverage.lanes, coverage.gains, coverage.states)
    for name, lane, gain, state in zip(*hits, strict=True):
        passed = f"passed at {gain:.2f}x the untuned function" if gain else "not on record"
        found = f"task {_task_key(model, name)}, by {lane}"
        yield f"function {name}: {found}; numerics and performance gates: {passed}"
        yield f"function {name}: its experiences are of state {state}"
    for name in coverage.fallback:
        yield f"function {name}: task {_task_key(model, name)}, untuned"
    yield from (f"left out: {reason}" for reason in coverage.failed)
    yield f"model gate: {gate}"


def _task_key(model: Model, name: str) -> str:
    """What experiences and records of the function are kept under."""
    return state_of(as_task_module(model.mod[name]))


def _examples(model: Model, host: TargetSpec) -> Iterator[Example]:
    """A call of every function a library will have, computed here by the untuned build."""
    for one in (model,) if model.is_relax else _one_by_one(model):
        yield _example(one, compile_model(one, host))


def _example(model: Model, artifact: Artifact) -> Example:
    feed = {spec.name: example_input(spec, i) for i, spec in enumerate(model.inputs)}
    return Example(model.entry, artifact.run(feed))


def _one_by_one(model: Model) -> Iterator[Model]:
    for var, func in model.mod.functions.items():
        yield load_model(IRModule({str(var.name_hint): func}))
