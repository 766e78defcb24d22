# SPDX-License-Identifier: Apache-2.0
"""Replies that try to get out, and mutations of them: refused, with no side effect, in no time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hostile.mutations import (
    mutated_text,
    mutated_tree,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent / "hostile"
FUNCTION = """{module}
{decorator}
def main({parameter}, B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {expression}
            {statement}
"""
HONEST_PARTS = {
    "module": "",
    "decorator": "@T.prim_func",
    "expression": "A[vi, vj]",
    "statement": "pass",
}
MAX_SECS = 2.0
NUM_MUTATIONS = 1000
SEED = 3


@dataclass(frozen=True)
class Answer:
    code: str
    reason: str
    secs: float
    """Of the processor."""
    seen: list[str]
    """What Python's audit hooks reported."""


def script_of(reply: dict[str, Any], canary: Path) -> str:
    reply = {
        key: value.replace("@CANARY@", str(canary)) if isinstance(value, str) else value
        for key, value in reply.items()
    }
    if "script" in reply:
        return str(reply["script"])
    annotation = reply.get("annotation") or f'T.Buffer({reply.get("shape", "(16, 16)")}, "float32")'
    parts = HONEST_PARTS | {"parameter": f"A: {annotation}"} | reply
    text = FUNCTION.format_map(parts)
    return text.replace("<<>>", str(reply.get("repeat", "")) * int(reply.get("times", 0)))


def read_all(scripts: list[str], folder: Path) -> tuple[list[Answer], list[str]]:
    """Answers of the rewrite lane in a watched process, and the modules that it imported."""
    done = subprocess.run(
        [sys.executable, str(HERE / "watched.py")],
        input=json.dumps(scripts),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "Traceback" not in done.stderr  # TVM itself warns of a store that loses precision
    told = json.loads(done.stdout)
    return [Answer(**each) for each in told["answers"]], told["imported"]


REPLIES: list[dict[str, Any]] = tomllib.loads((HERE / "replies.toml").read_text("utf-8"))["reply"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, Answer]:
    scripts = [script_of(reply, folder / "canary") for reply in REPLIES]
    given, imported = read_all(scripts, folder)
    assert imported == []
    return {reply["name"]: answer for reply, answer in zip(REPLIES, given, strict=True)}


def test_there_are_enough_of_them() -> None:
    assert len({reply["name"] for reply in REPLIES}) == len(REPLIES) >= 60


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply["name"])
def test_hostile_reply_is_refused_for_its_reason(
    reply: dict[str, Any], answers: dict[str, Answer]
) -> None:
    answer = answers[reply["name"]]
    assert answer.code in ("E_SCRIPT", "E_SIGNATURE", "E_INPUT_WRITTEN")
    assert reply["reason"] in answer.reason
    assert len(answer.reason) < 500


def test_hostile_replies_leave_no_trace(answers: dict[str, Answer], folder: Path) -> None:
    assert {name: answer.seen for name, answer in answers.items() if answer.seen} == {}
    assert list(folder.iterdir()) == []


def test_hostile_replies_cost_less_than_two_seconds_each(answers: dict[str, Answer]) -> None:
    assert max(answer.secs for answer in answers.values()) < MAX_SECS


def mutations(num: int, seed: int, canary: Path) -> list[str]:
    """Half by text, half by tree."""
    rng = random.Random(seed)
    honest = [path.read_text("utf-8") for path in sorted((HERE / "honest").glob("*.txt"))]
    honest = [script for script in honest if "```" not in script]
    honest += [(HERE / "honest" / "exp.txt").read_text("utf-8")] * len(honest)
    hostile = [script_of(reply, canary) for reply in REPLIES if "times" not in reply]
    keys = ("expression", "statement", "shape", "annotation", "decorator", "module")
    fragments = [
        str(reply[key]).replace("@CANARY@", str(canary))
        for reply in REPLIES
        for key in keys
        if key in reply and "times" not in reply
    ]
    return [
        mutated_tree(rng.choice(honest), fragments, rng)
        if number % 2
        else mutated_text(rng.choice(honest + hostile), fragments, rng)
        for number in range(num)
    ]


def test_mutations_never_raise_hang_or_get_out(folder: Path) -> None:
    scripts = mutations(NUM_MUTATIONS, SEED, folder / "canary")
    given, imported = read_all(scripts, folder)
    raised = [script for script, each in zip(scripts, given, strict=True) if each.code == "RAISED"]
    assert raised == []
    assert [each.seen for each in given if each.seen] == []
    assert max(each.secs for each in given) < MAX_SECS
    assert imported == []
    assert list(folder.iterdir()) == []
    # Mutations of honest scripts are in part honest still: the lane is not shut.
    assert sum(each.code == "" for each in given) > 0
