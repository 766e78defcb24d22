# SPDX-License-Identifier: Apache-2.0
"""Compile a model with what a work_dir has learned, and prove the result; no LLM, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule, tirx
from tvm.target import Target

from kope_tvm.artifact import Artifact
from kope_tvm.comparison import Comparison, compare, random_inputs
from kope_tvm.errors import KopeError, WorkDirError
from kope_tvm.extraction import as_task_module, written_params
from kope_tvm.machine import load_target
from kope_tvm.manifest import Coverage, Manifest
from kope_tvm.model import Model, load_model
from kope_tvm.records import open_database
from kope_tvm.target import TargetSpec

_DATABASE_FILES = ("database_workload.json", "database_tuning_record.json")
_IMPORT_IS_OFF = "; the untuned build is as far off: TVM's import differs, not the tuning"
_TARGET_KEYS = ("kind", "mcpu", "mattr", "arch")


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
    """Load a model and compile it with the records of `work_dir`.

    Without records every function is compiled as TVM does by default; `Artifact.coverage` says so.
    """
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    model = load_model(mod_or_onnx_path, dims=dims or {})
    return compile_model(model, spec, work_dir)


def compile_model(model: Model, target: TargetSpec, work_dir: str | Path | None = None) -> Artifact:
    """Compile a loaded model; None as `work_dir` makes the untuned build."""
    tvm_target = Target(dict(target.tvm_target))
    database = _database(Path(work_dir), tvm_target) if work_dir is not None else None
    mod, coverage = apply_database(model.mod, database, tvm_target)
    try:
        executable = tvm.compile(mod, target=tvm_target)
    except (RuntimeError, ValueError, tvm.error.InternalError) as error:
        reason = str(error).strip().splitlines()[0]
        raise KopeError(
            f"{model.name}: TVM cannot compile it for {target.name}: {reason}"
        ) from error
    return Artifact(executable, _manifest(model, target, coverage))


def apply_database(mod: IRModule, database: Any, target: Target) -> tuple[IRModule, Coverage]:
    """Schedule every PrimFunc that the database knows; the others stay as they are."""
    hit: list[str] = []
    fallback: list[str] = []
    failed: list[str] = []
    scheduled = mod.clone()
    for var, func in sorted(mod.functions.items(), key=lambda item: str(item[0].name_hint)):
        if not isinstance(func, tirx.PrimFunc):
            continue
        tuned, reason = _schedule(func, database, target)
        if tuned is not None:
            scheduled.update_func(var, tuned)
        (fallback if tuned is None else hit).append(var.name_hint)
        if reason:
            failed.append(f"{var.name_hint}: {reason}")
    return scheduled, Coverage(tuple(hit), tuple(fallback), tuple(failed))


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


def _schedule(
    func: tirx.PrimFunc, database: Any, target: Target
) -> tuple[tirx.PrimFunc | None, str]:
    """Replay the best record as stock TVM's `MetaScheduleApplyDatabase` does, one by one.

    Stock gives up on the whole model where one record does not replay.
    """
    if database is None or "tirx.is_scheduled" in func.attrs:
        return None, ""
    try:
        sch = database.query_schedule(as_task_module(func), target, "main")
    except (RuntimeError, ValueError, TypeError, tvm.error.InternalError) as error:
        return None, f"its record does not replay: {str(error).strip().splitlines()[-1]}"
    if sch is None or tvm_ffi.structural_equal(sch.mod, as_task_module(func)):
        return None, ""
    tuned = sch.mod["main"].with_attr("tirx.is_scheduled", True)
    symbol = func.attrs.get("global_symbol")
    named = (
        tuned.with_attr("global_symbol", symbol) if symbol else tuned.without_attr("global_symbol")
    )
    return named, ""


def _database(work_dir: Path, target: Target) -> Any:
    """The work_dir's records, or None where it has none; nothing is created."""
    if not all((work_dir / name).is_file() for name in _DATABASE_FILES):
        return None
    database = open_database(work_dir)
    wanted = _identity(target)
    for record in database.get_all_tuning_records():
        if record.target is not None and _identity(record.target) != wanted:
            raise WorkDirError(
                f"work_dir {str(work_dir)!r} holds records for {record.target}; "
                f"compiling for {target}; give the target it was tuned for or another work_dir"
            )
    return database


def _identity(target: Target) -> tuple[str, ...]:
    """What decides whether a schedule fits; the number of cores does not."""
    exported = target.export()
    machine = str(exported.get("mtriple", "")).partition("-")[0]
    return (machine, *(str(exported.get(key, "")) for key in _TARGET_KEYS))


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
