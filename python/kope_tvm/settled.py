# SPDX-License-Identifier: Apache-2.0
"""Which tasks of a work_dir had their finals, and on how many outcomes."""

from __future__ import annotations

import json
from pathlib import Path

_FILE = "settled.json"


class Settled:
    """A small file, replaced whole; where it is missing or damaged the finals are held again."""

    def __init__(self, work_dir: Path) -> None:
        self._path = work_dir / _FILE

    def holds(self, task_key: str, num_outcomes: int) -> bool:
        """Whether the finals were held when there were as many outcomes."""
        return num_outcomes > 0 and self._read().get(task_key) == num_outcomes

    def note(self, task_key: str, num_outcomes: int) -> None:
        """Put on record that they were."""
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(self._read() | {task_key: num_outcomes}), encoding="utf-8")
        fresh.replace(self._path)

    def _read(self) -> dict[str, int]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
