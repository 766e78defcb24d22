# SPDX-License-Identifier: Apache-2.0
"""The modules that a work_dir's tuning came to, as files that a contender is made of."""

from __future__ import annotations

from pathlib import Path

import tvm

from kope_tvm.learned import Learned
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.store import Store
from kope_tvm.workbench import Workbench, replayed


def settled_module(bench: Workbench, work_dir: Path) -> Path:
    """What `kope compile` would take from a work_dir, as JSON."""
    best, _ = Learned.open(work_dir, bench.tvm_target).apply(bench.mod)
    file = work_dir / "settled.json"
    file.write_text(tvm.ir.save_json(best), encoding="utf-8")
    return file


def best_module(bench: Workbench, work_dir: Path, first: int) -> Path:
    """The fastest of a work_dir's first trials as JSON; of none, the untuned module."""
    best = _fastest(journal_of(work_dir), first)
    candidate = replayed(bench, best) if best is not None else None
    chosen = candidate.sch.mod if candidate is not None else bench.mod
    file = work_dir / f"best-of-{first}.json"
    file.write_text(tvm.ir.save_json(chosen), encoding="utf-8")
    return file


def journal_of(work_dir: Path) -> list[Experience]:
    """All that a work_dir went through, oldest first."""
    journal = Store.open(str(work_dir / "experience.sqlite"))
    past = sorted(journal.experiences(), key=lambda one: one.at)
    journal.close()
    return past


def _fastest(past: list[Experience], first: int) -> Experience | None:
    measured = [one for one in past if one.accepted][:first]
    right = [one for one in measured if one.run_secs]
    return min(right, key=lambda one: sorted(one.run_secs)[len(one.run_secs) // 2], default=None)
