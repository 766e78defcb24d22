# SPDX-License-Identifier: Apache-2.0
"""`kope tune` with a stranger that cheats, but for once: that one wins, of the rest it says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from door import STRANGER, entries

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.store import Store

OP = "op:relu_chain:m=8,n=30"
UNPROVED = "relu by the sign's bit, which lets NaN through where the untuned function does not"
"""Only the last of all cases tells: on record as right, if slow, until it would be the best."""
CHEATS = {
    one.name: one
    for one in entries("cheats")
    if one.op == OP and "proposal" in one.doors and one.name != UNPROVED
}
HONEST = {one.name: one for one in entries("honest") if one.op == OP and one.script}
PROPOSER = """
from door import proposal_of
from test_cheats_tuned import CHEATS, HONEST

class Stranger:
    def __init__(self, seat):
        given = (*CHEATS.values(), *HONEST.values())
        self.left = [proposal_of(entry, seat.bench) for entry in given]

    def propose(self, context):
        return [self.left.pop(0) for _ in range(min(context.num_wanted, len(self.left)))]
"""
INSTALLED = {
    "stranger.py": PROPOSER,
    "stranger-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: stranger\nVersion: 1\n",
    "stranger-1.dist-info/entry_points.txt": "[kope_tvm.proposers]\nstranger = stranger:Stranger\n",
}


@dataclass(frozen=True)
class Tuned:
    """What a run said, and what it put on record of the stranger's proposals."""

    report: dict[str, Any]
    journal: dict[str, Experience]
    memory: dict[str, Experience]
    stderr: str


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    folder = tmp_path_factory.mktemp("tuned")
    for name, text in INSTALLED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    args = [
        *(sys.executable, "-m", "kope_tvm.cli", "tune", OP, "--target", "host", "--seed", "5"),
        *("--trials", str(len(CHEATS) + len(HONEST)), "--proposer", "stranger", "--json"),
        *("--work-dir", str(folder / "work"), "--memory", str(folder / "memory.sqlite")),
    ]
    places = os.pathsep.join([str(folder), str(Path(__file__).parent)])
    environment = {**os.environ, "KOPE_HOME": str(folder), "PYTHONPATH": places}
    done = subprocess.run(args, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    stores = (folder / "work" / "experience.sqlite", folder / "memory.sqlite")
    journal, memory = map(_of_the_stranger, stores)
    return Tuned(json.loads(done.stdout), journal, memory, done.stderr)


def _of_the_stranger(path: Path) -> dict[str, Experience]:
    with Store.open(str(path)) as store:
        return {one.change: one for one in store.experiences() if one.proposer == STRANGER}


def test_every_proposal_is_on_record_with_its_reason(tuned: Tuned) -> None:
    assert set(tuned.journal) == set(tuned.memory) == {*CHEATS, *HONEST}
    for name, kept in tuned.memory.items():
        codes = CHEATS[name].codes["proposal"] if name in CHEATS else ("",)
        assert kept.code in codes, name
        assert (tuned.journal[name].code, tuned.journal[name].reason) == (kept.code, kept.reason)
        assert bool(kept.reason) == bool(kept.code)


def test_the_report_counts_refusals_by_code(tuned: Tuned) -> None:
    (task,) = tuned.report["tasks"]
    counted = dict(map(tuple, task["refusals"]))
    mine = Counter(one.code for one in tuned.journal.values() if one.code)
    assert all(counted[code] >= count for code, count in mine.items())
    assert sum(counted.values()) == task["refused"] + task["failed"]


def test_no_cheat_is_the_best(tuned: Tuned) -> None:
    (task,) = tuned.report["tasks"]
    right = [one for one in tuned.journal.values() if one.accepted and not one.code]
    assert {one.change for one in right} == set(HONEST)
    assert 0 < task["best_secs"] <= task["baseline_secs"]
