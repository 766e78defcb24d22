# SPDX-License-Identifier: Apache-2.0
"""Stored exchanges answer the requests that they were made of, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kope_tvm.chat.dialogue import Dialogue, Reply, Request, Spent, Usage
from kope_tvm.chat.exchanges import Exchanges
from kope_tvm.chat.replayed import ReplayDialogue
from kope_tvm.errors import UsageError

STATES = {"s1": '{"lane": "plan", "space": "plan", "text": "[]"}'}


def request(task: str = "t", subject: str = "1", purpose: str = "propose") -> Request:
    return Request(task, purpose, subject, "system", "prompt", {}, STATES)


def reply(text: str) -> Reply:
    return Reply(text, Usage(100, 10), 2.5, "json_schema")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "exchanges.jsonl"
    record = Exchanges(path)
    record.answered(request(), reply("a"))
    record.answered(request(subject="2"), reply("b"))
    record.answered(request("u"), replace(reply(""), error="no answer within 60 s"))
    record.answered(request(purpose="repair"), reply("c"))
    return path


def test_a_request_is_answered_by_its_task_purpose_and_subject(path: Path) -> None:
    dialogue = ReplayDialogue(path)
    asked = [request(purpose="repair"), request("u"), request(subject="2"), request()]
    answers = [dialogue.ask(one).result(timeout=0) for one in asked]
    assert [each.text for each in answers] == ["c", "", "b", "a"]
    assert [each.error for each in answers] == ["", "no answer within 60 s", "", ""]
    assert {(each.mode, each.usage) for each in answers} == {("replay", Usage(100, 10))}


def test_a_reply_is_read_against_the_programs_it_was_written_against(path: Path) -> None:
    other = replace(request(), states={"s1": "another"}, prompt="another")
    assert ReplayDialogue(path).ask(other).result(timeout=0).states == STATES


def test_what_is_not_on_record_is_an_error_and_costs_nothing(path: Path) -> None:
    dialogue = ReplayDialogue(path)
    answer = dialogue.ask(request("v")).result(timeout=0)
    assert (answer.text, answer.error) == ("", "not on record")
    assert dialogue.spent == Spent()


def test_each_reply_is_given_once_those_of_a_resumed_run_in_order(path: Path) -> None:
    Exchanges(path).answered(request(), reply("again"))
    dialogue = ReplayDialogue(path)
    answers = [dialogue.ask(request()).result(timeout=0) for _ in range(3)]
    assert [each.text or each.error for each in answers] == ["a", "again", "not on record"]


def test_it_is_open_while_replies_are_left_and_counts_what_they_cost(path: Path) -> None:
    dialogue: Dialogue = ReplayDialogue(path)
    assert (dialogue.is_open, dialogue.patience_secs, list(dialogue.notices)) == (True, 0.0, [])
    for one in (request(), request(subject="2"), request("u")):
        dialogue.ask(one)
        assert dialogue.is_open
    dialogue.ask(request(purpose="repair"))
    assert not dialogue.is_open
    assert dialogue.spent == Spent(4, 400, 40)


def test_replaying_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    dialogue = ReplayDialogue(path)
    dialogue.ask(request())
    dialogue.note(request(), [])
    dialogue.close()
    assert (path.read_bytes(), list(path.parent.iterdir())) == (before, [path])


def test_garbage_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n", encoding="utf-8")
    with pytest.raises(UsageError, match="x:1: not an exchange"):
        ReplayDialogue(tmp_path / "x")
