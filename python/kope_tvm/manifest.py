# SPDX-License-Identifier: Apache-2.0
"""What a compiled model knows of itself: edges, target and coverage.

It is written behind the shared object, where loaders do not look, so that it travels with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from kope_tvm.errors import UsageError
from kope_tvm.gains import Gains
from kope_tvm.tensor_spec import TensorSpec

_MARK = b"\nkope-tvm artifact 1\n"
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Coverage:
    """Which functions run as a work_dir has them, and which as TVM compiles them by default."""

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
        return Manifest(**{**fields, "coverage": Coverage(**coverage)})


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
