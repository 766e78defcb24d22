# SPDX-License-Identifier: Apache-2.0
"""`kope memory show MODEL` finds the tasks of a model by what they compute."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

import graph_story as story
from kope_tvm.cli import main
from kope_tvm.machine import load_target
from kope_tvm.memory import Memory
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.workbench import state_of

MODEL = "op:softmax:m=4,n=8,dtype=float32"


def show(*args: str) -> Result:
    return CliRunner().invoke(main, ["memory", "show", *args])


def show_in_ascii(*args: str) -> str:
    command = [sys.executable, "-m", "kope_tvm.cli", "memory", "show", *args]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_is_shown_on_the_host_or_on_another_machine(tmp_path: Path) -> None:
    spec = load_target("host")
    ((_, mod, _),) = extract_tasks(load_model(MODEL), spec)
    own = replace(story.GUESS, task_key=state_of(mod), machine_key=spec.key)
    board = load_target("spacemit-k1").key
    memory = str(tmp_path / "m.sqlite")
    with Memory.open(memory) as opened:
        opened.record_many([own, replace(own, machine_key=board, change="\N{SNOWMAN} guess")])
    here = show(MODEL, "--memory", memory)
    assert here.exit_code == 0, here.output
    assert f"on {spec.key}" in here.output
    assert board not in here.output
    there = show_in_ascii(MODEL, "--target", "spacemit-k1", "--memory", memory)
    assert there.splitlines()[-1].startswith("`-- ? guess  2x  4 ms")


def test_a_model_that_was_never_tuned_is_named(tmp_path: Path) -> None:
    done = show(MODEL, "--memory", str(tmp_path / "m.sqlite"))
    assert done.exit_code == 2
    assert f"{MODEL}: nothing is on record for it; `kope tune` records" in done.output
    missing = show("nosuch", "--memory", str(tmp_path / "m.sqlite"))
    assert missing.exit_code == 2
    assert "nosuch: no such file" in missing.output


def test_a_machine_without_experience_is_told_who_has_some(tmp_path: Path) -> None:
    memory = str(tmp_path / "m.sqlite")
    with Memory.open(memory) as opened:
        opened.record_many(story.STORY)
    other = show("gelu", "--target", "spacemit-k1", "--memory", memory)
    assert other.exit_code == 2
    assert f"only for {story.GUESS.machine_key}; give --target" in other.output
