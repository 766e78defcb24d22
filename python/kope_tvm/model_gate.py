# SPDX-License-Identifier: Apache-2.0
"""A stitched model proved: where it is wrong, the functions to blame stay untuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm import IRModule
from tvm.target import Target

from kope_tvm.artifact import Artifact
from kope_tvm.compilation import compile_model
from kope_tvm.errors import KopeError
from kope_tvm.learned import Learned
from kope_tvm.machine import load_target
from kope_tvm.model import Model, load_model
from kope_tvm.model_check import ModelCheck, ModelReferences
from kope_tvm.outcome import Measurement
from kope_tvm.performance import Comparison, compared
from kope_tvm.schedule_error import TVM_ERRORS, first_line
from kope_tvm.target import TargetSpec

_NUM_TURNS = 3
_TURN_SECS = 0.05
_REPEAT = 3
_MOST_CALLS = 1000
_SLOW_SECS = 0.5
"""A model whose call takes as long is timed by one call a turn."""


def compile(
    mod_or_onnx_path: str | Path | IRModule,
    target: str | TargetSpec,
    work_dir: str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
) -> Artifact:
    """Load a model and compile it with the fastest that `work_dir` has of every function.

    Proved, as `kope compile` does, where this machine can run it. Without records every function
    is compiled as TVM does by default; `Artifact.coverage` says so.
    """
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    model = load_model(mod_or_onnx_path, dims=dims or {})
    if work_dir is None or spec.rpc_key:
        return compile_model(model, spec, work_dir)
    return proved_model(model, spec, work_dir).artifact


@dataclass(frozen=True)
class ProvedModel:
    """A build that is as right as the untuned one, and how fast it is beside it."""

    artifact: Artifact
    check: ModelCheck
    untuned: Artifact
    """TVM's own build."""
    beside_untuned: Comparison | None
    """None where no function is tuned."""


def proved_model(model: Model, target: TargetSpec, work_dir: str | Path) -> ProvedModel:
    """Compile a loaded model for this machine, and prove it.

    Raises KopeError where the untuned build is wrong itself.
    """
    references = ModelReferences(model, compile_model(model, target))
    learned = Learned.open(work_dir, Target(dict(target.tvm_target)))
    _, coverage = learned.apply(model.mod)
    build = _Gate(model, target, work_dir, references, coverage.hit).right_build()
    if build.artifact is None or build.check is None or not build.check.ok:
        raise KopeError(f"{model.name}: compiled but wrong, nothing written: {build.said}")
    beside = _beside(build.artifact, references) if build.artifact.coverage.hit else None
    build.artifact.passed(f"model: {build.check}")
    if beside is not None:
        build.artifact.passed(f"performance: {beside.gain:.2f}x the untuned build")
    return ProvedModel(build.artifact, build.check, references.untuned, beside)


@dataclass(frozen=True)
class _Build:
    """One build and what became of it."""

    said: str
    """How it compares, or why it cannot be."""
    artifact: Artifact | None = None
    check: ModelCheck | None = None

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong that was not wrong untuned."""
        return self.check is not None and self.check.is_tuning_right


@dataclass(frozen=True)
class _Gate:
    """The builds of one model, each with other functions untuned."""

    model: Model
    target: TargetSpec
    work_dir: str | Path
    references: ModelReferences
    tuned: tuple[str, ...]
    """All that the work_dir has something for."""

    def right_build(self) -> _Build:
        """The build with the most functions tuned that could be found right."""
        build = self._build({})
        if build.is_right or not self.tuned:
            return build
        found = self._build(self._blamed(self.tuned, [], build.said))
        if found.is_right:
            return found
        return self._build(dict.fromkeys(self.tuned, _reason(build.said)))  # Never twice the same.

    def _blamed(self, names: Sequence[str], kept: Sequence[str], why: str) -> dict[str, str]:
        """Those of `names` to leave untuned, each with the reason.

        `kept` are right without them and wrong with all of them, as `why` says. Half by half, so
        that one of many is found in few builds; of several that are wrong only together it is the
        last.
        """
        if len(names) == 1:
            return {names[0]: _reason(why)}
        half = len(names) // 2
        blamed = self._blamed_if_wrong(names[:half], kept)
        kept = [*kept, *(name for name in names[:half] if name not in blamed)]
        if not blamed:
            return self._blamed(names[half:], kept, why)
        return blamed | self._blamed_if_wrong(names[half:], kept)

    def _blamed_if_wrong(self, names: Sequence[str], kept: Sequence[str]) -> dict[str, str]:
        among = {*kept, *names}
        build = self._build({name: "" for name in self.tuned if name not in among})
        return {} if build.is_right else self._blamed(names, kept, build.said)

    def _build(self, untuned: Mapping[str, str]) -> _Build:
        try:
            artifact = compile_model(self.model, self.target, self.work_dir, untuned=untuned)
            check = self.references.check(artifact)
        except (KopeError, *TVM_ERRORS) as error:
            return _Build(first_line(error))
        return _Build(str(check.untuned if not check.untuned.ok else check), artifact, check)


def _reason(why: str) -> str:
    return f"wrong in the model ({why}); compiled untuned"


def _beside(artifact: Artifact, references: ModelReferences) -> Comparison:
    """The two builds timed in turns."""
    feed, untuned = references.feeds[0], references.untuned
    secs = max(*artifact.time(feed, number=1, repeat=3), *untuned.time(feed, number=1, repeat=3))
    number = min(_MOST_CALLS, max(1, round(_TURN_SECS / _REPEAT / secs)))
    repeat = 1 if secs > _SLOW_SECS else _REPEAT
    ours: tuple[float, ...] = ()
    theirs: tuple[float, ...] = ()
    for _ in range(_NUM_TURNS):
        ours += artifact.time(feed, number=number, repeat=repeat)
        theirs += untuned.time(feed, number=number, repeat=repeat)
    return compared(Measurement(ours, is_proven=True), Measurement(theirs, is_proven=True))
