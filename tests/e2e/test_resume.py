# SPDX-License-Identifier: Apache-2.0
"""A tuning killed at any moment goes on with the same command: nothing repeated, nothing lost."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from scripted_round import HOST, SOFTMAX, bench_of, learn
from tvm.s_tir import meta_schedule as ms

import kope_tvm
from kope_tvm.compilation import compile_model
from kope_tvm.memory.store import Store
from kope_tvm.model import load_model

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MATMUL = "op:matmul:m=64,n=64,k=64,dtype=float32"
NUM_TRIALS = 24
LIMIT_SECS = 240
ACCEPTED = "accepted = 1"
RIGHT = f"{ACCEPTED} AND code = ''"
MEASURED = f"{RIGHT} OR {ACCEPTED} AND state NOT IN (SELECT state FROM decision WHERE {RIGHT})"
"""Without the second word on what the finals refuted."""
UNTUNED = 1
"""Records of the untuned function, once the finals were held."""
PACKAGES = (Path(kope_tvm.__file__).parents[1], Path(__file__).parent)
STRANGER = """
from scripted_round import PLAN, REWRITE, Scripted

class Stranger(Scripted):
    def __init__(self, seat):
        super().__init__([PLAN, REWRITE])
"""
KILLED_IN_A_ROUND = """
import os, signal, sys
from pathlib import Path
from scripted_round import *
from kope_tvm.model import load_model
from kope_tvm.records import Records
from kope_tvm.written import Written
work_dir, lane, place, method = sys.argv[1:]
bench = bench_of(load_model(SOFTMAX))
proposals = {"decisions": outermost_in_parallel(bench), **PROPOSALS}
setattr({"Records": Records, "Written": Written}[place], method,
        lambda *_: os.kill(os.getpid(), signal.SIGKILL))
learn(Path(work_dir), bench, (proposals[lane], 0.1))
"""


class Tuning:
    """One work_dir with a memory of its own, and the command that fills it."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        model: str = MATMUL,
        num_trials: int = NUM_TRIALS,
        packages: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self.work_dir = folder / "work"
        self._args = [
            *(sys.executable, "-m", "kope_tvm.cli", "tune", model, "--target", "host"),
            *("--trials", str(num_trials), "--seed", "5"),
            *("--work-dir", str(self.work_dir), "--memory", str(folder / "memory.sqlite")),
            *options,
        ]
        self._environment = {
            **os.environ,
            "KOPE_HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(map(str, (*packages, *PACKAGES))),
        }

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._args, env=self._environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self) -> str:
        process = self.start()
        stdout, stderr = process.communicate(timeout=LIMIT_SECS)
        assert process.returncode == 0, stderr
        return stdout

    def states(self, where: str = ACCEPTED, name: str = "work/experience.sqlite") -> list[str]:
        """States on the journal, oldest first; none before it exists."""
        path = self.folder / name
        if not path.exists():
            return []
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            try:
                rows = connection.execute(f"SELECT state FROM decision WHERE {where} ORDER BY id")
                return [state for (state,) in rows]
            except sqlite3.OperationalError:  # Its tables are being made.
                return []

    def wait_for(self, process: subprocess.Popen[str], num_trials: int) -> None:
        deadline = time.monotonic() + LIMIT_SECS
        while len(self.states()) < num_trials and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def records(self) -> list[str]:
        text = (self.work_dir / "database_tuning_record.json").read_text(encoding="utf-8")
        return text.splitlines()

    def left_behind(self) -> list[int]:
        """Processes that carry this folder in their environment."""
        mark = f"KOPE_HOME={self.folder}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def assert_nothing_left_behind(self) -> None:
        deadline = time.monotonic() + 10
        while self.left_behind() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert self.left_behind() == []


def test_a_killed_tuning_goes_on_without_repeating_or_losing_a_trial(tmp_path: Path) -> None:
    tuning, moments = Tuning(tmp_path), random.Random(11)
    for num_trials in (0, 1, 7, 18, NUM_TRIALS):
        process = tuning.start()
        tuning.wait_for(process, num_trials)
        time.sleep(moments.uniform(0, 0.4) + (1.5 if num_trials == 0 else 0))
        acknowledged = tuning.states()
        process.kill()
        process.communicate()
        assert tuning.states()[: len(acknowledged)] == acknowledged
        tuning.assert_nothing_left_behind()
    tuning.finish()
    states = tuning.states(MEASURED)
    assert len(states) == NUM_TRIALS
    assert len(set(states)) == NUM_TRIALS
    succeeded = tuning.states(RIGHT)
    assert len(tuning.records()) == len(succeeded) + UNTUNED
    assert set(tuning.states(name="memory.sqlite")) == set(states)
    database = ms.database.JSONDatabase(work_dir=str(tuning.work_dir))
    assert len(database.get_all_tuning_records()) == len(succeeded) + UNTUNED


def test_a_record_lost_between_journal_and_database_is_written_again(tmp_path: Path) -> None:
    tuning = Tuning(tmp_path, num_trials=3)
    tuning.finish()
    path = tuning.work_dir / "database_tuning_record.json"
    first, *_, last = tuning.records()
    path.write_text("\n".join([first, last[: len(last) // 2]]), encoding="utf-8")
    shown = tuning.finish()
    assert "half-written last line" in shown
    assert len(tuning.records()) == len(tuning.states(RIGHT)) + UNTUNED
    assert all(json.loads(line) for line in tuning.records())
    torn = tuning.work_dir / "database_tuning_record.torn"
    assert torn.read_text(encoding="utf-8") == last[: len(last) // 2] + "\n"


def test_ctrl_c_keeps_everything_and_says_how_to_go_on(tmp_path: Path) -> None:
    tuning = Tuning(tmp_path)
    process = tuning.start()
    tuning.wait_for(process, 3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "the same command goes on: kope tune" in stderr
    assert "Traceback" not in stderr
    assert len(tuning.records()) == len(tuning.states(RIGHT)) >= 3
    tuning.assert_nothing_left_behind()


@pytest.mark.parametrize(
    ("lane", "moment"),
    [
        ("decisions", "Records.commit"),
        ("plan", "Written.keep"),
        ("plan", "Records.commit"),
        ("rewrite", "Records.replays"),
        ("rewrite", "Written.keep"),
        ("rewrite", "Records.commit"),
    ],
)
def test_a_kill_between_journal_and_record_loses_no_lane(
    tmp_path: Path, lane: str, moment: str
) -> None:
    work_dir = tmp_path / "work"
    done = subprocess.run(
        [sys.executable, "-c", KILLED_IN_A_ROUND, work_dir, lane, *moment.split(".")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PACKAGES))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    model = load_model(SOFTMAX)
    bench = bench_of(model)
    assert compile_model(model, HOST, work_dir).coverage.hit == ()
    learn(work_dir, bench)
    assert compile_model(model, HOST, work_dir).coverage.lanes == (lane,)
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    assert len(database.get_all_tuning_records()) == 1
    with Store.open(str(tmp_path / "memory.sqlite")) as memory:
        (kept,) = memory.experiences()
    assert (kept.lane, kept.run_secs) == (lane, (0.1,))


def test_what_a_stranger_wrote_is_tuned_settled_and_resumed(tmp_path: Path) -> None:
    package = tmp_path / "package"
    described = package / "stranger-1.dist-info"
    described.mkdir(parents=True)
    (package / "stranger.py").write_text(STRANGER)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    entry = "[kope_tvm.proposers]\nscripted = stranger:Stranger\n"
    (described / "entry_points.txt").write_text(entry)
    options = ("--proposer", "scripted", "--json")
    tuning = Tuning(tmp_path, *options, model=SOFTMAX, num_trials=6, packages=[package])
    first, again = (json.loads(tuning.finish()) for _ in range(2))
    asked = ("correct", "suspicious", "faster", "gain", "needed", "accepted")
    assert {name for task in first["tasks"] for name in asked if name in task} == {*asked}
    (plan,) = tuning.states(f"{RIGHT} AND lane = 'plan'")
    (rewrite,) = tuning.states(f"{RIGHT} AND lane = 'rewrite'")
    assert plan != rewrite
    assert (again["trials"], again["notices"]) == (0, first["notices"])
    assert again["tasks"] == first["tasks"]
    assert again["measure_secs"] == 0
    (key,) = {task["key"] for task in first["tasks"]}
    assert len(list((tuning.work_dir / "plans" / key).iterdir())) == 1
    assert len(list((tuning.work_dir / "rewrites" / key).iterdir())) == 1
    assert len(tuning.records()) == len(tuning.states(RIGHT)) + UNTUNED
