# SPDX-License-Identifier: Apache-2.0
"""Merging loses nothing and minds no order, and so does an export that is read back."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from kope_tvm.errors import UsageError
from kope_tvm.memory import Memory, Store, experience_key
from kope_tvm.memory.portable import load_jsonl, read_jsonl, write_jsonl
from merge_checks import Part, check_merges, merges, parts
from store_checks import CARRIED, FAILED, FIRST, MENDED, SPEC

ALL = [FIRST, FAILED, MENDED, CARRIED]


@settings(max_examples=3, deadline=None)
@given(parts())
def test_merge_is_idempotent_commutative_associative_and_lossless(some: tuple[Part, ...]) -> None:
    with merges(lambda: "sqlite://") as made:
        check_merges(made, *some)


def exported(*experiences: object) -> str:
    file = io.StringIO()
    with Store.open("sqlite://") as store:
        store.record_many(experiences)  # type: ignore[arg-type]
        assert write_jsonl(store, file) == len(experiences)
    return file.getvalue()


def test_an_export_is_one_object_a_line_oldest_first() -> None:
    newer = replace(FIRST, at=2000.0)
    lines = [json.loads(line) for line in exported(newer, FIRST).splitlines()]
    assert [next(iter(line)) for line in lines] == [
        "kope_memory", "task", "machine", "experience", "experience",
    ]  # fmt: skip
    assert lines[0] == {"kope_memory": {"version": 1}}
    assert lines[1]["task"]["features"]["op_class"] == "softmax"
    assert lines[2]["machine"]["key"] == SPEC.key
    assert [line["experience"]["at"] for line in lines[3:]] == [1000.0, 2000.0]
    assert lines[3]["experience"]["key"] == experience_key(FIRST)
    assert "repairs" not in lines[3]["experience"]


def test_an_export_reads_back_as_the_same_experiences() -> None:
    found = list(read_jsonl(io.StringIO(exported(*ALL))))
    assert sorted(found, key=experience_key) == sorted(ALL, key=experience_key)


def test_an_export_holds_the_lessons_with_their_evidence() -> None:
    slower = replace(FIRST, space="sketch", run_secs=(3e-3,), proposal="slow")
    file = io.StringIO()
    with Memory.open("sqlite://") as memory:
        memory.record_many([FIRST, slower])
        (lesson,) = memory.learn_lessons()
        write_jsonl(memory.store, file)
    told = json.loads(file.getvalue().splitlines()[-1])["lesson"]
    assert (told["text"], told["supports"]) == (lesson.text, [experience_key(FIRST)])


def broken(number: int, **changes: object) -> str:
    """An export of FIRST with one line changed."""
    lines = exported(FIRST).splitlines()
    ((kind, value),) = json.loads(lines[number]).items()
    lines[number] = json.dumps({kind: {k: v for k, v in (value | changes).items() if v != ...}})
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what?", r"line 1 of the memory file: 'what\?'; expected one JSON object of one key"),
        (broken(0, version=2), "line 1 .* kope_memory of version 2; expected .* version 1"),
        (broken(1, key="beef"), "line 4 .* a task that no line tells of"),
        (broken(1, features=...), "line 2 .* a task without 'features'"),
        (broken(2, facts=...), "line 3 .* a machine without 'facts'"),
        (broken(3, change=...), "line 4 .* an experience with change missing"),
        (broken(3, mood="good"), "line 4 .* an experience with mood missing or unknown"),
        (broken(3, run_secs=7), "line 4 .* an experience"),
        (
            broken(3, run_secs=[1e-9]),
            "line 4 .*content that is not efa7c6.*; expected its own key",
        ),
    ],
)
def test_a_file_that_was_altered_is_refused_by_its_line(text: str, words: str) -> None:
    with Store.open("sqlite://") as store, pytest.raises(UsageError, match=words):
        load_jsonl(store, io.StringIO(text))
