# SPDX-License-Identifier: Apache-2.0
"""Compile a model with what a work_dir has learned, and prove the result; no LLM, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import IRModule
from tvm.target import Target

from kope_tvm.artifact import Artifact
from kope_tvm.comparison import Comparison, compare, random_inputs
from kope_tvm.errors import KopeError
from kope_tvm.extraction import written_params
from kope_tvm.learned import Learned
from kope_tvm.machine import load_target
from kope_tvm.manifest import Coverage, Manifest
from kope_tvm.model import Model, load_model
from kope_tvm.target import TargetSpec

_IMPORT_IS_OFF = "; the untuned build is as far off: TVM's import differs, not the tuning"


@dataclass(frozen=True)
class ModelCheck:
    """A compiled model against its references; None where there is none."""

    onnxruntime: Comparison | None
    untuned: Comparison
    untuned_onnxruntime: Comparison | None
    """The untuned build against ONNX Runtime: what the import itself is off by."""

    @property
    def ok(self) -> bool:
        return self.untuned.ok and (self.onnxruntime is None or self.onnxruntime.ok)

    def __str__(self) -> str:
        against = f"against the untuned build: {self.untuned}"
        if self.onnxruntime is None:
            return against
        blame = "" if self.onnxruntime.ok or not self.untuned.ok else _IMPORT_IS_OFF
        return f"against ONNX Runtime: {self.onnxruntime}; {against}{blame}"


def compile(
    mod_or_onnx_path: str | Path | IRModule,
    target: str | TargetSpec,
    work_dir: str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
) -> Artifact:
    """Load a model and compile it with the fastest that `work_dir` has of every function.

    Without records every function is compiled as TVM does by default; `Artifact.coverage` says so.
    """
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    model = load_model(mod_or_onnx_path, dims=dims or {})
    return compile_model(model, spec, work_dir)


def compile_model(model: Model, target: TargetSpec, work_dir: str | Path | None = None) -> Artifact:
    """Compile a loaded model; None as `work_dir` makes the untuned build."""
    tvm_target = Target(dict(target.tvm_target))
    mod, coverage = Learned.open(work_dir, tvm_target).apply(model.mod)
    try:
        executable = tvm.compile(mod, target=tvm_target)
    except (RuntimeError, ValueError, tvm.error.InternalError) as error:
        reason = str(error).strip().splitlines()[0]
        raise KopeError(
            f"{model.name}: TVM cannot compile it for {target.name}: {reason}"
        ) from error
    return Artifact(executable, _manifest(model, target, coverage))


def verify_model(model: Model, artifact: Artifact, seeds: int = 3) -> ModelCheck:
    """Compare a compiled model with ONNX Runtime, its optimisations off, and with TVM untuned."""
    untuned = compile_model(model, _target_of(artifact))
    reference = _reference(model, artifact.manifest.num_cores)
    feeds = [random_inputs(model.inputs, seed) for seed in range(seeds)]
    ours = [artifact.run(feed) for feed in feeds]
    plain = [untuned.run(feed) for feed in feeds]
    theirs = (
        [reference.run(_by_position(reference, model, feed)) for feed in feeds] if reference else []
    )
    return ModelCheck(
        onnxruntime=_worst(ours, theirs) if theirs else None,
        untuned=_worst(ours, plain),
        untuned_onnxruntime=_worst(plain, theirs) if theirs else None,
    )


def _manifest(model: Model, target: TargetSpec, coverage: Coverage) -> Manifest:
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
    )


def _target_of(artifact: Artifact) -> TargetSpec:
    return TargetSpec(artifact.manifest.target_name, artifact.target)


def _reference(model: Model, num_threads: int) -> Any:
    if model.onnx is None:
        return None
    from kope_tvm.onnx_reference import OnnxReference

    return OnnxReference(model.onnx, num_threads, optimised=False)


def _by_position(
    reference: Any, model: Model, feed: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    values = [feed[spec.name] for spec in model.inputs]
    return dict(zip(reference.input_names, values, strict=True))


def _worst(
    outputs: Sequence[Sequence[np.ndarray]], references: Sequence[Sequence[np.ndarray]]
) -> Comparison:
    found = [compare(*pair) for pair in zip(outputs, references, strict=True)]
    return max(found, key=lambda each: (not each.ok, each.max_rel))
