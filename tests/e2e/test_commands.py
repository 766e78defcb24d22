# SPDX-License-Identifier: Apache-2.0
"""The commands as a user types them, each in a process of its own, on a small operator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kope_tvm

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MATMUL = "op:matmul:m=64,n=64,k=64,dtype=float32"
LIMIT_SECS = 300


class Shell:
    """A folder with a memory of its own, to type commands in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "KOPE_HOME": str(folder / "home"),
            "PYTHONPATH": str(Path(kope_tvm.__file__).parents[1]),
        }

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kope_tvm.cli", *args],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def json(self, *args: str) -> Any:
        process = self.start(*args, "--json")
        stdout, stderr = process.communicate(timeout=LIMIT_SECS)
        assert process.returncode == 0, stderr
        return json.loads(stdout)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("kope"))


@pytest.fixture(scope="module")
def report(shell: Shell) -> Any:
    return shell.json("tune", MATMUL, "--target", "host", "--trials", "6", "--work-dir", "work")


def test_tune_measures_and_reports_as_json(report: Any) -> None:
    assert report["trials"] == 6
    (task,) = report["tasks"]
    assert task["trials"] == 6
    assert task["best_secs"] > 0
    assert task["speedup"] >= 1


def test_the_same_command_again_measures_nothing_twice(shell: Shell, report: Any) -> None:
    again = shell.json("tune", MATMUL, "--target", "host", "--trials", "6", "--work-dir", "work")
    assert again["trials"] == 0
    assert again["tasks"][0]["trials"] == 6
    assert again["tasks"][0]["best_secs"] == report["tasks"][0]["best_secs"]


def test_memory_counts_and_recalls_what_was_tuned(shell: Shell, report: Any) -> None:
    held = shell.json("memory", "stats")
    assert held["place"] == str(shell.folder / "home" / "memory.sqlite")
    assert held["decisions"] >= 6
    recalled = shell.json("memory", "recall", MATMUL)["tasks"][report["tasks"][0]["name"]]
    assert max(one["similarity"] for one in recalled) == pytest.approx(1)
    assert {one["factors"]["task_similarity"] for one in recalled} == {1.0}


def test_work_dir_of_another_target_is_a_wrong_call(shell: Shell, report: Any) -> None:
    process = shell.start(
        *("tune", MATMUL, "--target", "x86-avx2", "--trials", "2", "--work-dir", "work")
    )
    stdout, stderr = process.communicate(timeout=LIMIT_SECS)
    assert (process.returncode, stdout) == (2, "")
    assert "work" in stderr
    assert "Traceback" not in stderr


def test_compile_proves_and_run_computes(shell: Shell, report: Any) -> None:
    done = shell.json(
        *("compile", MATMUL, "--target", "host", "--work-dir", "work", "-o", "matmul.so")
    )
    (task,) = report["tasks"]
    assert len(done["coverage"]["hit"]) == task["accepted"]
    assert done["coverage"]["gains"] == [task["gain"]] * task["accepted"]
    assert (done["beside_untuned"] is not None) == task["accepted"]
    assert done["check"]
    call = shell.json("run", "matmul.so", "--profile")
    assert len(call["random_inputs"]) == 2
    assert call["outputs"][0]["shape"] == [64, 64]
    assert min(call["run_secs"]) > 0

    ones = shell.folder / "ones.npy"
    np.save(ones, np.ones((64, 64), "float32"))
    inputs = [f"--input={name}={ones}" for name in call["random_inputs"]]
    call = shell.json("run", "matmul.so", *inputs)
    assert call["random_inputs"] == []
    output = call["outputs"][0]
    assert (output["smallest"], output["largest"]) == (64, 64)


def test_a_damaged_input_file_is_a_wrong_call(shell: Shell) -> None:
    (shell.folder / "not.so").write_bytes(b"x" * 100)
    process = shell.start("run", "not.so")
    stdout, stderr = process.communicate(timeout=LIMIT_SECS)
    assert (process.returncode, stdout) == (2, "")
    assert "not.so" in stderr


def test_interrupted_tuning_keeps_what_was_measured_and_resumes(shell: Shell) -> None:
    words = ("tune", MATMUL, "--target", "host", "--work-dir", "stopped", "--trials")
    process = shell.start(*words, "400")
    records = shell.folder / "stopped" / "database_tuning_record.json"
    deadline = time.monotonic() + LIMIT_SECS
    while not (records.is_file() and records.stat().st_size):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no trial was measured"
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; everything measured is kept in stopped; the same command goes on" in stderr

    kept = len(records.read_text(encoding="utf-8").splitlines())
    resumed = shell.json(*words, str(kept))
    assert resumed["trials"] < kept
    assert resumed["tasks"][0]["trials"] >= kept
