# SPDX-License-Identifier: Apache-2.0
"""What was written rather than sampled, as files of a work_dir that a person can read.

`plans/<task>/<trace>.json` holds the steps whose trace is on record, and
`rewrites/<task>/<workload>.py` the function whose records stand for the task's. All of it can be
made again from the journal; a process that only compiles needs no journal.
"""

from __future__ import annotations

from pathlib import Path

from kope_tvm.proposal import Plan, Proposal, Rewrite, proposal_text
from kope_tvm.records import RecordKey

_PLANS, _REWRITES = "plans", "rewrites"


class Written:
    """The right plans and rewrites of a work_dir, by task."""

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir

    def keep(self, task_key: str, record: RecordKey, proposal: Proposal) -> None:
        """Write down whose record this is; decisions need no more than their trace.

        Raises OSError, and leaves what was there, where the disk is full.
        """
        if isinstance(proposal, Plan):
            path = self._work_dir / _PLANS / task_key / f"{record.trace}.json"
            _write(path, proposal_text(proposal) + "\n")
        elif isinstance(proposal, Rewrite) and record.workload != task_key:
            path = self._work_dir / _REWRITES / task_key / f"{record.workload}.py"
            _write(path, proposal.script)

    def plans(self, task_key: str) -> frozenset[str]:
        """The traces that plans made, by `trace_key`."""
        return frozenset(path.stem for path in (self._work_dir / _PLANS / task_key).glob("*.json"))

    def rewrites(self, task_key: str) -> dict[str, Path]:
        """The scripts of a task, by the workload that each of them is."""
        found = (self._work_dir / _REWRITES / task_key).glob("*.py")
        return {path.stem: path for path in sorted(found)}


def _write(path: Path, text: str) -> None:
    """Whole or not at all; what a crash or a hand has damaged is put right."""
    data = text.encode()
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)
