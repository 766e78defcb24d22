# SPDX-License-Identifier: Apache-2.0
"""Compile a loaded model with what a work_dir has learned; no LLM, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import tvm
from tvm.target import Target

from kope_tvm.artifact import Artifact
from kope_tvm.errors import KopeError
from kope_tvm.extraction import written_params
from kope_tvm.learned import Learned
from kope_tvm.llvm_build import build, build_untuned
from kope_tvm.manifest import Coverage, Manifest
from kope_tvm.model import Model
from kope_tvm.model_check import ModelCheck, ModelReferences
from kope_tvm.prepack.constants import prepacked
from kope_tvm.provenance import provenance
from kope_tvm.target import TargetSpec

_NONE: Mapping[str, str] = {}


def compile_model(
    model: Model,
    target: TargetSpec,
    work_dir: str | Path | None = None,
    *,
    untuned: Mapping[str, str] = _NONE,
) -> Artifact:
    """Compile a loaded model; None as `work_dir` makes the untuned build, TVM's own.

    `untuned` names functions that stay as they are, each with the reason.
    """
    tvm_target = Target(dict(target.tvm_target))
    mod, coverage = Learned.open(work_dir, tvm_target).apply(model.mod, untuned=untuned)
    mod, packed = prepacked(mod, tvm_target)
    try:
        executable = (build_untuned if work_dir is None else build)(mod, tvm_target)
    except (RuntimeError, ValueError, tvm.error.InternalError) as error:
        reason = str(error).strip().splitlines()[0]
        raise KopeError(
            f"{model.name}: TVM cannot compile it for {target.name}: {reason}"
        ) from error
    return Artifact(executable, _manifest(model, target, coverage, packed), mod=mod)


def verify_model(model: Model, artifact: Artifact, seeds: int = 3) -> ModelCheck:
    """Compare a compiled model with ONNX Runtime, its optimisations off, and with TVM untuned."""
    untuned = compile_model(model, TargetSpec(artifact.manifest.target_name, artifact.target))
    return ModelReferences(model, untuned, seeds).check(artifact)


def _manifest(
    model: Model, target: TargetSpec, coverage: Coverage, packed: tuple[str, ...]
) -> Manifest:
    positions = () if model.is_relax else written_params(model.mod[model.entry])
    return Manifest(
        name=model.name,
        is_relax=model.is_relax,
        entry=model.entry,
        inputs=model.inputs,
        outputs=model.outputs,
        output_positions=positions,
        target_name=target.name,
        tvm_target=dict(target.tvm_target),
        coverage=coverage,
        made_by=replace(provenance(model, target, coverage), prepacked=packed),
    )
