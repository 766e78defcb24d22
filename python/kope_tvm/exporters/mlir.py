# SPDX-License-Identifier: Apache-2.0
"""The functions as linalg on tensors, and their schedules as a transform script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kope_tvm.artifact import Artifact
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.evidence import Evidence, Workload
from kope_tvm.mlir.exporting import Header, Scheduled, TransformScript, right_script
from kope_tvm.mlir.tir_module import SaidModule, said_module

_USE = """\
# {name}

`{name}.mlir` has functions of linalg on tensors; its first lines say what made it.
{schedules}
"""
_SCHEDULED = """\
`{name}_script.mlir` has the schedules of {functions} for MLIR's transform interpreter:

```sh
mlir-opt-22 {name}.mlir \\
  --transform-preload-library=transform-library-paths={name}_script.mlir \\
  --transform-interpreter
```

Each was applied and run: {checked}."""
_UNTUNED = "Nothing of it is tuned: there is no script."
_UNSAID = "There is no script of its schedules: {reason}"


class Mlir:
    """A module, a script where something is tuned, and how to use them."""

    def __init__(self, name: str, evidence: Evidence) -> None:
        """`name` is what the files are called."""
        self._name = name
        self._evidence = evidence

    def export(self, artifact: Artifact, out_dir: Path) -> tuple[Path, ...]:
        """Write what linalg has words for; UsageError names the rest where that is all."""
        said = self._said(artifact)
        script, failed = self._script(artifact, said)
        left_out = (*said.left_out, *failed)
        texts = {f"{self._name}.mlir": self._module(said, left_out)}
        stale = out_dir / f"{self._name}_script.mlir"
        stale.unlink(missing_ok=True)
        if script is not None:
            texts[stale.name] = script.text
        texts["README.md"] = self._readme(script, failed)
        for name, text in texts.items():
            (out_dir / name).write_text(text, encoding="utf-8")
        return tuple(sorted(out_dir / name for name in texts))

    def _said(self, artifact: Artifact) -> SaidModule:
        if artifact.mod is None:
            raise UsageError(
                f"{artifact.manifest.name}: loaded from a file, which has no code left to export; "
                "compile the model again"
            )
        said = said_module(self._workload.mod, self._evidence.examples)
        if not said.functions:
            told = "; ".join(said.left_out) or "it has none"
            raise UsageError(
                f"{artifact.manifest.name}: linalg has words for none of its functions: {told}"
            )
        return said

    @property
    def _workload(self) -> Workload:
        if self._evidence.workload is None:
            raise UsageError(f"{self._name}: nothing says what its functions were untuned")
        return self._evidence.workload

    def _script(
        self, artifact: Artifact, said: SaidModule
    ) -> tuple[TransformScript | None, tuple[str, ...]]:
        """The script, and what is said of schedules that are in none."""
        scheduled = list(self._scheduled(artifact, said))
        if not scheduled:
            return None, ()
        header = Header(f"{self._name}.mlir", self._workload.target, tuple(said.functions))
        try:
            return right_script(scheduled, header), ()
        except KopeError as error:
            return None, (" ".join(str(error).split()),)

    def _scheduled(self, artifact: Artifact, said: SaidModule) -> Iterator[Scheduled]:
        mod, tuned, coverage = self._workload.mod, artifact.mod, artifact.coverage
        for name, lane in zip(coverage.hit, coverage.lanes, strict=True):
            found = said.functions.get(name)
            if found is not None and tuned is not None:
                yield Scheduled(name, found.text, found.sources, mod[name], tuned[name], lane)

    def _module(self, said: SaidModule, left_out: Sequence[str]) -> str:
        checked = f"right to {said.distance:.1e} of what TVM computes, in MLIR's default lowering"
        lines = [*self._evidence.made_by, checked, *(f"left out: {each}" for each in left_out)]
        head = "\n".join(f"// {line}" for line in lines)
        return "\n\n".join([head, *(each.text.rstrip() for each in said.functions.values())]) + "\n"

    def _readme(self, script: TransformScript | None, failed: Sequence[str]) -> str:
        if script is None:
            why = _UNSAID.format(reason="; ".join(failed)) if failed else _UNTUNED
            return _USE.format(name=self._name, schedules=why)
        functions = ", ".join(script.functions)
        told = _SCHEDULED.format(name=self._name, functions=functions, checked=script.checked)
        return _USE.format(name=self._name, schedules=told)
