# SPDX-License-Identifier: Apache-2.0
"""What a compiled model knows of itself: edges, target, coverage, and what made it.

It is written behind the shared object, where loaders do not look, so that it travels with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kope_tvm.errors import UsageError
from kope_tvm.gains import Gains
from kope_tvm.tensor_spec import TensorSpec

_MARK = b"\nkope-tvm artifact 1\n"
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Coverage:
    """Which functions run as a work_dir has them, and which as TVM schedules them by default."""

    hit: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """What was faster on record and could not be applied, or made the model wrong: `name: reason`.
    """
    lanes: tuple[str, ...] = ()
    """By what each of `hit` was made: `decisions`, `plan` or `rewrite`."""
    gains: tuple[float, ...] = ()
    """How many times as fast as the untuned function each of `hit` was beside it when it was tuned;
    0 where it never was, as in a work_dir of MetaSchedule's own.
    """

    states: tuple[str, ...] = ()
    """The program that each of `hit` became: what experiences of it are kept under."""

    @property
    def speedup(self) -> Gains:
        """The functions' gains, as far as they are known."""
        num_functions = len(self.hit) + len(self.fallback)
        return Gains(tuple(gain for gain in self.gains if gain > 0), num_functions)

    def __str__(self) -> str:
        total = len(self.hit) + len(self.fallback)
        tuned = f"{len(self.hit)} of {total} functions tuned{self._written}"
        return f"{tuned}, {len(self.fallback)} fell back"

    @property
    def _written(self) -> str:
        """Names what more than decisions made."""
        made = zip(self.hit, self.lanes, strict=False)
        found = [f"{name} by a {lane}" for name, lane in made if lane != "decisions"]
        return f" ({', '.join(found)})" if found else ""


@dataclass(frozen=True)
class FunctionFacts:
    """What made one function, and what it has to do in a call."""

    name: str
    task_key: str
    """What its records and experiences are kept under."""
    state: str
    """The program that it became; empty where it is untuned."""
    lane: str
    """By what: `decisions`, `plan` or `rewrite`; empty where it is untuned."""
    gain: float
    """Over the untuned function, as the performance gate measured it; 0 where it did not."""
    flops: float
    roof_secs: float
    """The least time that its machine allows; 0 where that is unknown."""


@dataclass(frozen=True)
class MadeBy:
    """What made a compiled model."""

    versions: str = ""
    functions: tuple[FunctionFacts, ...] = ()
    gates: tuple[str, ...] = ()
    """What the whole model was checked by, and how that ended."""
    prepacked: tuple[str, ...] = ()
    """Functions that take a constant laid out for them when the model was compiled."""


@dataclass(frozen=True)
class Manifest:
    """What a compiled model knows of itself."""

    name: str
    is_relax: bool
    entry: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    output_positions: tuple[int, ...]
    """Where a PrimFunc takes its outputs; Relax returns them."""
    target_name: str
    tvm_target: Mapping[str, object]
    coverage: Coverage
    made_by: MadeBy = field(default_factory=MadeBy)

    @property
    def num_cores(self) -> int:
        return int(str(self.tvm_target.get("num-cores", 1)))

    def as_json(self) -> str:
        """Return everything, for `from_json`."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read what `as_json` wrote."""
        fields = json.loads(text)
        for edge in ("inputs", "outputs"):
            fields[edge] = tuple(
                TensorSpec(each["name"], tuple(each["shape"]), each["dtype"])
                for each in fields[edge]
            )
        fields["output_positions"] = tuple(fields["output_positions"])
        coverage = {key: tuple(names) for key, names in fields["coverage"].items()}
        made_by = _made_by(fields.pop("made_by", {}))
        return Manifest(**{**fields, "coverage": Coverage(**coverage), "made_by": made_by})


def _made_by(fields: Mapping[str, Any]) -> MadeBy:
    """What made a model; nothing is known of one that an older kope wrote."""
    functions = tuple(FunctionFacts(**each) for each in fields.get("functions", ()))
    told = {key: tuple(fields.get(key, ())) for key in ("gates", "prepacked")}
    return MadeBy(str(fields.get("versions", "")), functions, **told)


def append_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest behind the shared object at `path`."""
    text = manifest.as_json().encode()
    with path.open("ab") as file:
        file.write(_MARK + text + len(text).to_bytes(_LENGTH_BYTES, "big"))


def read_manifest(path: Path) -> Manifest:
    """Read what `append_manifest` wrote."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    length = int.from_bytes(content[-_LENGTH_BYTES:], "big")
    end = len(content) - _LENGTH_BYTES
    begin = end - length
    if begin < len(_MARK) or content[begin - len(_MARK) : begin] != _MARK:
        raise UsageError(f"{path}: not written by `kope compile`; expected a file that it wrote")
    return Manifest.from_json(content[begin:end].decode())
