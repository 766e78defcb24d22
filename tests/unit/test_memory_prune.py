# SPDX-License-Identifier: Apache-2.0
"""Forgetting what is worth least leaves a smaller memory that still knows what matters."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from kope_tvm.cli import main
from kope_tvm.memory import Memory
from prune_checks import NewPlace, PruneChecks, crowd


class TestSqlite(PruneChecks):
    @pytest.fixture
    def new_place(self, tmp_path: Path) -> NewPlace:
        numbers = count()
        return lambda: str(tmp_path / f"{next(numbers)}.sqlite")


def test_the_command_says_how_many_went_and_why_and_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with Memory.open(path) as memory:
        memory.record_many(crowd(1000))
    size = path.stat().st_size
    command = ["memory", "prune", "--keep", "100", "--memory", str(path)]
    result = CliRunner().invoke(main, [*command, "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "would go  slower     900" in result.stdout
    assert result.stdout.endswith("1000 experiences: 100 kept, 900 would go\n")
    assert path.stat().st_size >= size
    result = CliRunner().invoke(main, [*command, "--json"])
    told = json.loads(result.stdout)
    assert told["dropped"] == {"slower": 900}
    assert told["kept"] == {"best": 1, "diversity": 31, "value": 68}
    assert told["bytes_freed"] > size // 2
    assert path.stat().st_size < size // 2
    result = CliRunner().invoke(main, ["memory", "prune", "--keep", "-1"])
    assert result.exit_code == 2
