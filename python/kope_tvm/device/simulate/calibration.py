# SPDX-License-Identifier: Apache-2.0
"""How much dearer a core was found to be than what is assumed of it, kept in the user's home."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from kope_tvm.errors import KopeError
from kope_tvm.memory.location import default_path
from kope_tvm.target import TargetSpec

MARK = "simulated, uncalibrated"
"""Goes with every time that comes from here; board times and these are never compared."""
_FOLDER = "calibrations"


@dataclass(frozen=True)
class Weights:
    """Factors on what LLVM's model and the assumptions of the simulated machine say."""

    vector: float = 1.0
    """Latency and occupancy of the units for vector arithmetic."""
    scalar: float = 1.0
    """Latency and occupancy of all other units, and a branch that was guessed wrong."""
    l1: float = 1.0
    """Latency and occupancy of loads and stores, scalar and vector."""
    l2: float = 1.0
    """Latency of a line from the second level, and how long it keeps the port."""
    memory: float = 1.0
    """The same of a line from memory."""

    @property
    def options(self) -> dict[str, object]:
        """As the counter takes them, in thousandths."""
        return {f"{name}_scale": max(1, round(value * 1000)) for name, value in vars(self).items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.2f}" for name, value in vars(self).items())


@dataclass(frozen=True)
class Calibration:
    """What a fit found, of which core, when."""

    core: str
    date: str
    """`2026-11-30`."""
    weights: Weights = field(default_factory=Weights)

    @property
    def mark(self) -> str:
        """Instead of `simulated, uncalibrated`."""
        return f"simulated, calibrated {self.date} on {self.core}"


def core_class(spec: TargetSpec) -> str:
    """What a calibration holds for: boards and numbers of cores may differ."""
    facts = spec.facts
    return f"{facts.core or spec.tvm_target.get('mcpu') or spec.name}-{facts.vlen_bits}"


def kept(spec: TargetSpec, home: Path | None = None) -> Calibration | None:
    """The calibration of a target's core class; None where there is none.

    Raises KopeError where the file is damaged: times must not be uncalibrated unnoticed.
    """
    path = _path(spec, home)
    if not path.exists():
        return None
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        weights = Weights(**{one.name: float(row["weights"][one.name]) for one in fields(Weights)})
        return Calibration(str(row["core"]), str(row["date"]), weights)
    except (ValueError, KeyError, TypeError) as error:
        raise KopeError(
            f"calibration {path} cannot be read ({error!r}); "
            "make it anew with kope device calibrate, or remove it"
        ) from error


def keep(calibration: Calibration, spec: TargetSpec, home: Path | None = None) -> Path:
    """Writes it where `kept` finds it."""
    path = _path(spec, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(asdict(calibration), indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)
    return path


def weights_of(spec: TargetSpec) -> Weights:
    """Those of the target's calibration; of none, all 1."""
    found = kept(spec)
    return found.weights if found else Weights()


def mark_of(spec: TargetSpec) -> str:
    """What stands beside every simulated time of a target."""
    found = kept(spec)
    return found.mark if found else MARK


def _path(spec: TargetSpec, home: Path | None) -> Path:
    name = re.sub(r"[^\w.-]", "_", core_class(spec))
    return (home or default_path().parent) / _FOLDER / f"{name}.json"
