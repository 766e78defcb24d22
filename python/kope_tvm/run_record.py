# SPDX-License-Identifier: Apache-2.0
"""The runs of a work_dir on record: how each was called, and what it cost."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kope_tvm.chat.dialogue import Spent
from kope_tvm.config import without_credentials

RUNS = "runs.jsonl"
"""The file's name in a work_dir."""


@dataclass(frozen=True)
class Call:
    """How a run was called."""

    run_id: str
    command: str
    """As it was typed; empty for a call from Python."""
    target: str
    trials: int
    """The most there were to be in all."""
    proposers: tuple[str, ...]
    seed: int
    toolchain: str
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Cost:
    """What a run took."""

    trials: int
    """Measured by it."""
    failed: int
    wall_secs: float
    measure_secs: float
    model_secs: float
    own_secs: float
    spent: Spent


@dataclass(frozen=True)
class RunRecord:
    """One run; without a cost it was stopped, or goes on."""

    call: Call
    cost: Cost | None


def command_line() -> str:
    """The command that this process runs, as typed; empty where it is not `kope`."""
    if Path(sys.argv[0]).name != "kope":
        return ""
    return without_credentials(shlex.join(["kope", *sys.argv[1:]]))


def note_call(work_dir: Path, call: Call) -> None:
    """Put on record that a run begins; a full disk costs only that."""
    _append(work_dir, {"event": "began", **asdict(call)})


def note_cost(work_dir: Path, run_id: str, cost: Cost) -> None:
    """Put on record what it took; a full disk costs only that."""
    _append(work_dir, {"event": "ended", "run_id": run_id, **asdict(cost)})


def read_runs(work_dir: Path) -> tuple[RunRecord, ...]:
    """All runs on record, oldest first; a line that is no such record is left out."""
    calls: dict[str, Call] = {}
    costs: dict[str, Cost] = {}
    for event in _events(work_dir / RUNS):
        with contextlib.suppress(KeyError, TypeError):
            kind = event.pop("event")
            if kind == "began":
                call = Call(**{**event, "proposers": tuple(event["proposers"])})
                calls[call.run_id] = call
            elif kind == "ended":
                run_id = event.pop("run_id")
                costs[run_id] = Cost(**{**event, "spent": Spent(**event["spent"])})
    return tuple(RunRecord(call, costs.get(run_id)) for run_id, call in calls.items())


def _events(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


def _append(work_dir: Path, event: Mapping[str, Any]) -> None:
    line = json.dumps(event, sort_keys=True) + "\n"
    with contextlib.suppress(OSError), (work_dir / RUNS).open("ab", buffering=0) as file:
        # A line that a killed run left half written must not take this one with it.
        if file.seek(0, os.SEEK_END) and not _ends_whole(work_dir / RUNS):
            line = "\n" + line
        file.write(line.encode())


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
