# SPDX-License-Identifier: Apache-2.0
"""Which tasks of a work_dir had their finals, on how many outcomes, and how they ended."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kope_tvm.performance import Comparison

_FILE = "settled.json"


class Settled:
    """A small file, replaced whole; where it is missing or damaged the finals are held again."""

    def __init__(self, work_dir: Path) -> None:
        self._path = work_dir / _FILE

    def holds(self, task_key: str, num_outcomes: int) -> bool:
        """Whether the finals were held when there were as many outcomes."""
        return num_outcomes > 0 and self._of(task_key).get("outcomes") == num_outcomes

    def comparison(self, task_key: str) -> Comparison | None:
        """The fastest beside the untuned function; None where nothing right was measured."""
        found = self._of(task_key).get("comparison")
        try:
            return Comparison(**found) if found else None
        except TypeError:
            return None

    def note(self, task_key: str, num_outcomes: int, comparison: Comparison | None) -> None:
        """Put on record that they were, and how they ended."""
        entry = {
            "outcomes": num_outcomes,
            "comparison": asdict(comparison) if comparison else None,
        }
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(self._read() | {task_key: entry}), encoding="utf-8")
        fresh.replace(self._path)

    def _of(self, task_key: str) -> dict[str, Any]:
        found = self._read().get(task_key)
        return found if isinstance(found, dict) else {}

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
