# SPDX-License-Identifier: Apache-2.0
"""Transitions tell what single changes did, the most telling first, and always one that hurt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiences import MATMUL, MATMUL_FIRST, OTHER_SPEC, SPEC
from kope_tvm.memory import Experience, Memory, Transition
from kope_tvm.task import Task

TASK = Task("main", "f00d", "", SPEC, MATMUL)
FIRST: Experience = replace(MATMUL_FIRST, space="sketch")


def changed(change: str, secs: float, parent: str = "a", state: str = "") -> Experience:
    state = state or change
    return replace(
        FIRST, change=change, parent=parent, state=state, proposal=state, run_secs=(secs,)
    )


def failed(change: str, parent: str = "a") -> Experience:
    refused = replace(changed(change, 0.0, parent), code="E_BUILD", reason="no such loop")
    return replace(refused, accepted=False, run_secs=())


def changes(found: tuple[Transition, ...]) -> list[str]:
    return [one.change for one in found]


def test_nothing_is_told_of_an_empty_memory(memory: Memory) -> None:
    assert memory.transitions(TASK) == ()


def test_a_change_tells_its_parents_time_over_its_own(memory: Memory) -> None:
    memory.record_many([FIRST, changed("wider", 1e-3), failed("typo")])
    wider, typo = memory.transitions(TASK)
    assert wider.ratio == pytest.approx(4.0)
    assert replace(wider, ratio=4.0) == Transition(
        "wider", 4.0, "", "", "main", 1.0, "sketch", "decisions", "wider"
    )
    assert typo == Transition(
        "typo", 0.0, "E_BUILD", "no such loop", "main", 1.0, "sketch", "decisions", "typo"
    )
    assert not wider.is_negative
    assert typo.is_negative


def test_the_most_telling_comes_first_whichever_way_it_went(memory: Memory) -> None:
    memory.record_many(
        [FIRST, changed("bit", 3.9e-3), changed("worse", 12e-3), changed("half", 2e-3)]
    )
    assert changes(memory.transitions(TASK)) == ["worse", "half", "bit"]
    assert changes(memory.transitions(TASK, limit=2)) == ["worse", "half"]
    assert memory.transitions(TASK, limit=0) == ()


def test_the_last_place_goes_to_one_that_hurt(memory: Memory) -> None:
    memory.record_many([FIRST, *(changed(f"c{i}", 1e-3 + i * 1e-5) for i in range(9))])
    memory.record_many([changed("slower", 4.1e-3), failed("typo")])
    found = memory.transitions(TASK, limit=4)
    assert len(found) == 4
    assert [one.is_negative for one in found] == [False, False, False, True]
    assert found[-1].change == "typo"


def test_what_says_nothing_is_no_transition(memory: Memory) -> None:
    unknown = changed("from nowhere", 1e-3, parent="never measured")
    replayed = changed("recalled: it was fast", 4.1e-3, parent="a", state="a")
    from_failed = changed("after a failure", 1e-3, parent="typo")
    memory.record_many([FIRST, unknown, replayed, failed("typo"), from_failed])
    assert changes(memory.transitions(TASK)) == ["typo"]


def test_cheats_and_device_failures_are_never_told(memory: Memory) -> None:
    cheat = replace(changed("cheat", 1e-9), suspicious=True)
    after_cheat = changed("honest after it", 2e-3, parent="cheat")
    unplugged = replace(failed("unplugged"), code="E_DEVICE")
    memory.record_many([FIRST, cheat, after_cheat, unplugged])
    assert memory.transitions(TASK) == ()


def test_a_change_to_the_untuned_function_counts_half(memory: Memory) -> None:
    plan = replace(changed("a whole plan", 2e-3, parent=""), lane="plan", space="")
    memory.record_many([FIRST, plan, changed("wider", 1.9e-3)])
    wider, whole = memory.transitions(TASK)
    # log(8 / 2) / 2 is less than log(4 / 1.9).
    assert (wider.change, whole.change) == ("wider", "a whole plan")
    assert (whole.lane, whole.space) == ("plan", "")
    assert whole.ratio == pytest.approx(4.0)


def test_each_change_is_told_once(memory: Memory) -> None:
    b = changed("other", 3e-3, state="b")
    memory.record_many(
        [FIRST, b, changed("wider", 2e-3, state="c"), changed("wider", 1e-3, "b", state="d")]
    )
    found = memory.transitions(TASK)
    assert changes(found) == ["wider", "other"]
    assert found[0].ratio == pytest.approx(3.0)


def test_similar_tasks_and_machines_tell_less(memory: Memory) -> None:
    near = replace(MATMUL, spatial_extents=(512, 1024))
    memory.record_many([FIRST, changed("here", 3e-3)])
    for key, features, machine, name in (
        ("beef", near, SPEC.key, "near"),
        ("f00d", MATMUL, OTHER_SPEC.key, "elsewhere"),
        ("cafe", replace(MATMUL, op_class="softmax"), SPEC.key, "softmax"),
    ):
        moved = (FIRST, changed(name, 3e-3))
        memory.record_many(
            replace(one, task_key=key, features=features, machine_key=machine) for one in moved
        )
    found = memory.transitions(TASK)
    assert changes(found) == ["here", "near", "elsewhere"]
    assert found[0].similarity == 1.0 > found[1].similarity > found[2].similarity


def test_times_of_another_machine_are_not_compared(memory: Memory) -> None:
    memory.record_many([FIRST, replace(changed("there", 1e-3), machine_key=OTHER_SPEC.key)])
    assert memory.transitions(TASK) == ()


def test_what_is_recorded_meanwhile_is_told(memory: Memory, tmp_path: Path) -> None:
    memory.record(FIRST)
    assert memory.transitions(TASK) == ()
    with Memory.open(tmp_path / "m.sqlite") as other:
        other.record(changed("wider", 2e-3))
    assert changes(memory.transitions(TASK)) == ["wider"]
