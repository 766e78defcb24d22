# SPDX-License-Identifier: Apache-2.0
"""A run's folder: what is done, one file an operator and seed, so that a killed run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kope_tvm.bench.result import Configuration, Operator, Tuned
from kope_tvm.bench.stem import file_stem
from kope_tvm.bench.talk import Talk
from kope_tvm.errors import UsageError

_CONFIGURATION = "configuration.json"


class State:
    """The operators of one configuration that are done."""

    def __init__(self, folder: Path, configuration: Configuration) -> None:
        """Raises UsageError for a folder of another configuration."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        file, wanted = folder / _CONFIGURATION, json.loads(json.dumps(asdict(configuration)))
        found = _read(file) if file.is_file() else None
        if found is None:
            _write(file, wanted)
        elif found != wanted:
            differs = [key for key in wanted if found.get(key) != wanted[key]]
            given = ", ".join(f"{key} {found.get(key)!r} there" for key in differs)
            raise UsageError(
                f"--state {folder}: of a run that was called otherwise ({given}); "
                "call it the same, or name another folder"
            )

    def done(self, spec: str, seed: int) -> Operator | None:
        """What was found; None where it is still to be."""
        file = self._file(spec, seed)
        return operator_from(_read(file)) if file.is_file() else None

    def keep(self, operator: Operator, seed: int) -> None:
        """Whole or not at all."""
        _write(self._file(operator.spec, seed), asdict(operator))

    def work(self, spec: str, seed: int) -> Path:
        """Where the operator's tuning may leave its files."""
        return self._folder / "work" / f"{file_stem(spec)}.{seed}"

    def _file(self, spec: str, seed: int) -> Path:
        return self._folder / f"{file_stem(spec)}.{seed}.json"


def operator_from(data: Mapping[str, Any]) -> Operator:
    """What `asdict` made plain."""
    turns = {name: tuple(secs) for name, secs in data["run_secs"].items()}
    tuned = {name: _tuned(one) for name, one in data["tuned"].items()}
    return Operator(data["spec"], turns, tuned, data["roof_secs"], data["absent"])


def _tuned(data: Mapping[str, Any]) -> Tuned:
    talk = data["talk"]
    curve = tuple((int(number), float(secs)) for number, secs in data["curve"])
    said = Talk(**{**talk, "reached": tuple(talk["reached"])}) if talk else None
    return Tuned(**{**data, "curve": curve, "talk": said})


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: not what a bench wrote: {error}; remove it") from error


def _write(file: Path, data: Any) -> None:
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    fresh.replace(file)
