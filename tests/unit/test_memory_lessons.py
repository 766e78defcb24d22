# SPDX-License-Identifier: Apache-2.0
"""Lessons on single changes: borne out by several tasks, demoted by some, dropped by others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from experiences import MATMUL, MATMUL_FIRST, SPEC
from kope_tvm.memory import Experience, Lesson, Memory, experience_key
from kope_tvm.task import Task

TASK = Task("main", "f00d", "", SPEC, MATMUL)
FIRST: Experience = replace(
    MATMUL_FIRST, task_key="t0", space="rule:matmul", proposer="rules", change="first guess"
)
WIDER = "#3 4 -> 8"


def start(task_key: str) -> Experience:
    return replace(FIRST, task_key=task_key)


def changed(task_key: str, secs: float, change: str = WIDER) -> Experience:
    """A change of the first program; 0 seconds for one that failed."""
    found = replace(start(task_key), parent="a", state=change, proposal=change, change=change)
    if secs:
        return replace(found, run_secs=(secs,))
    return replace(found, run_secs=(), code="E_BUILD", accepted=False)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Open a memory with the first guess of ten tasks."""
    with Memory.open(tmp_path / "m.sqlite") as opened:
        opened.record_many(start(f"t{number}") for number in range(10))
        yield opened


def texts(lessons: tuple[Lesson, ...]) -> list[str]:
    return [lesson.text for lesson in lessons]


def test_a_change_that_helped_in_several_tasks_is_a_lesson(memory: Memory) -> None:
    helped = [changed("t0", 2e-3), changed("t1", 3.2e-3), changed("t2", 2.5e-3)]
    memory.record_many([*helped, changed("t3", 4e-3)])
    (lesson,) = memory.learn_lessons()
    # 2, 1.25, 1.6 and 1: the median is between 1.25 and 1.6.
    assert lesson.text == ("matmul: #3 4 -> 8 in rule:matmul helped in 3 of 4 tasks, median 1.41x")
    assert set(lesson.supports) == {experience_key(one) for one in helped}
    assert lesson.contradicts == ()
    assert memory.store.lessons("matmul") == (lesson,)
    assert memory.lessons(TASK) == (f"{lesson.text} (3 for, 0 against)",)


def test_one_task_is_no_lesson_however_often(memory: Memory) -> None:
    memory.record_many(replace(changed("t0", 2e-3), order=number) for number in range(5))
    assert memory.learn_lessons() == ()


def test_a_task_counts_once_by_the_mean_of_its_programs(memory: Memory) -> None:
    # In t0 once 2x and once half: nothing. In t1 once 4x and once nothing: 2x.
    memory.record_many([changed("t0", 2e-3), replace(changed("t0", 8e-3), order=1)])
    memory.record_many([changed("t1", 1e-3), replace(changed("t1", 4e-3), order=1)])
    assert memory.learn_lessons() == ()
    memory.record(changed("t2", 2e-3))
    (lesson,) = memory.learn_lessons()
    assert lesson.text.endswith("helped in 2 of 3 tasks, median 2.00x")


def test_what_hurts_is_a_lesson_too_and_a_failure_counts_half(memory: Memory) -> None:
    memory.record_many([changed("t0", 8e-3), changed("t1", 0.0), changed("t2", 16e-3)])
    (lesson,) = memory.learn_lessons()
    assert lesson.text.endswith("hurt in 3 of 3 tasks, median 0.50x")


def test_contradictions_demote_and_then_drop_a_lesson(memory: Memory) -> None:
    other = "#4 1 -> 2"
    memory.record_many(changed(f"t{number}", 2e-3) for number in range(4))
    memory.record_many(changed(f"t{number}", 2e-3, other) for number in range(3))
    assert [WIDER in text for text in texts(memory.learn_lessons())] == [True, False]
    # Each takes away what two gave: 4 - 2 is less than 3.
    memory.record(changed("t4", 8e-3))
    demoted = memory.learn_lessons()
    assert [WIDER in text for text in texts(demoted)] == [False, True]
    assert [lesson.strength for lesson in demoted] == [3, 2]
    memory.record(changed("t5", 8e-3))
    assert [lesson.strength for lesson in memory.learn_lessons()] == [3, 0]
    memory.record(changed("t6", 8e-3))
    assert [WIDER in text for text in texts(memory.learn_lessons())] == [False]


def test_lessons_follow_from_the_decisions_in_any_order(tmp_path: Path) -> None:
    past = [start("t0"), start("t1"), changed("t0", 2e-3), changed("t1", 1e-3)]
    with Memory.open(tmp_path / "1.sqlite") as left, Memory.open(tmp_path / "2.sqlite") as right:
        left.record_many(past)
        for one in reversed(past):
            right.record(one)
            right.lessons(TASK)
        assert right.learn_lessons() == left.learn_lessons() != ()


def test_other_machines_simulations_and_cheats_say_nothing(memory: Memory) -> None:
    helped = changed("t0", 2e-3), changed("t1", 2e-3)
    memory.record_many(replace(one, simulated=True) for one in helped)
    memory.record_many(replace(one, suspicious=True) for one in helped)
    memory.record_many(replace(one, machine_key="cuda/sm_90//0/132") for one in helped)
    memory.record(helped[0])
    assert memory.learn_lessons() == ()


def test_lessons_of_spaces_and_of_changes_stand_together(memory: Memory) -> None:
    memory.record_many([changed("t0", 2e-3), changed("t1", 2e-3)])
    sketch = replace(FIRST, space="sketch", state="s", proposal="s", run_secs=(6e-3,))
    memory.record(sketch)
    told = texts(memory.learn_lessons())
    assert told == [
        "matmul: #3 4 -> 8 in rule:matmul helped in 2 of 2 tasks, median 2.00x",
        "matmul: rule:matmul is 3.00x the best other space over 1 tasks",
    ]
