# SPDX-License-Identifier: Apache-2.0
"""The graph tells what led to what; lessons hold as long as the evidence is for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from experiences import MATMUL_FIRST, SPEC
from kope_tvm.memory import Experience, ExperienceGraph, Memory, experience_key
from kope_tvm.memory.lessons import Leaders
from kope_tvm.task import Task

FIRST: Experience = replace(MATMUL_FIRST, proposal="pa")
MACHINE = FIRST.machine_key
TASK = Task("main", "f00d", "", SPEC, FIRST.features)


def edge(parent: str, state: str, secs: float, at: float = 1000.0) -> Experience:
    return replace(FIRST, parent=parent, state=state, run_secs=(secs,), at=at, proposal=state)


A, B, C = edge("", "a", 4e-3, 1.0), edge("a", "b", 2e-3, 2.0), edge("b", "c", 3e-3, 3.0)
FAILED = replace(edge("a", "d", 0.0, 4.0), run_secs=(), code="E_BUILD", accepted=False)


def graph(*experiences: Experience) -> ExperienceGraph:
    built = ExperienceGraph()
    for experience in experiences:
        built.add(experience)
    return built


def test_a_path_leads_from_the_untuned_function_to_a_state() -> None:
    assert graph(C, B, A).decision_path("f00d", "c") == (A, B, C)
    assert graph(C, B, A).decision_path("f00d", "") == ()
    assert graph(A, C).decision_path("f00d", "c") == ()
    assert graph(A).decision_path("unknown", "c") == ()


def test_a_state_reached_twice_tells_its_faster_measurement() -> None:
    again = replace(A, run_secs=(3.9e-3,), order=5)
    assert graph(A, again).decision_path("f00d", "a") == (again,)


def test_siblings_are_the_alternatives_with_failures() -> None:
    built = graph(A, B, FAILED, C)
    assert built.siblings(B) == (FAILED,)
    assert built.siblings(FAILED) == (B,)
    assert built.siblings(A) == ()


def test_best_is_the_fastest_honest_one_of_task_and_machine() -> None:
    cheat = replace(edge("a", "e", 1e-9), suspicious=True)
    elsewhere = replace(edge("a", "f", 1e-4), machine_key="llvm//rvv/256/8")
    built = graph(A, B, C, FAILED, cheat, elsewhere)
    assert built.best("f00d", MACHINE) == B
    assert built.best("f00d", elsewhere.machine_key) == elsewhere
    assert built.best("f00d", "unknown") is None
    assert built.best("unknown", MACHINE) is None


def test_the_graph_of_a_task_comes_from_the_store(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        memory.record_many([A, B, replace(A, task_key="beef")])
        built = memory.graph("f00d")
    assert built.decision_path("f00d", "b") == (A, B)
    assert ("task", "beef") not in built.nx
    kinds = sorted(data["kind"] for _, data in built.nx.nodes(data=True))
    assert kinds == ["machine", "state", "state", "state", "task"]


def trial(task_key: str, space: str, secs: float) -> Experience:
    return replace(FIRST, task_key=task_key, space=space, state=space, run_secs=(secs,))


def test_a_lesson_names_the_faster_space_with_its_evidence(tmp_path: Path) -> None:
    rules = [trial(task, "rule:matmul_x86", 1e-3) for task in ("t1", "t2")]
    sketches = [trial("t1", "sketch", 2e-3), trial("t2", "sketch", 8e-3)]
    with Memory.open(tmp_path / "m.sqlite") as memory:
        memory.record_many(rules + sketches)
        (lesson,) = memory.learn_lessons()
        assert memory.store.lessons("matmul") == (lesson,)
        assert memory.store.lessons("softmax") == ()
        assert memory.stats().lessons == 1
    assert lesson.text == "matmul: rule:matmul_x86 is 4.00x the best other space over 2 tasks"
    assert set(lesson.supports) == {experience_key(one) for one in rules}
    assert lesson.evidence_count == 2


def test_a_contradicted_lesson_dies(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        memory.record_many([trial("t1", "rule:x", 1e-3), trial("t1", "sketch", 2e-3)])
        assert len(memory.learn_lessons()) == 1
        memory.record_many([trial("t2", "rule:x", 2e-3), trial("t2", "sketch", 1e-3)])
        assert memory.learn_lessons() == ()
        assert memory.store.lessons() == ()


def test_merging_distils_lessons_from_both_sides(tmp_path: Path) -> None:
    paths = (tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    with Memory.open(paths[0]) as left, Memory.open(paths[1]) as right:
        for memory, task in ((left, "t1"), (right, "t2")):
            memory.record_many([trial(task, "rule:x", 1e-3), trial(task, "sketch", 2e-3)])
            memory.learn_lessons()
        assert left.merge(right) == 2
        right.merge(left)
        (lesson,) = left.store.lessons()
        assert right.store.lessons() == (lesson,)
    assert lesson.evidence_count == 2


def test_lessons_are_told_without_being_learnt_first(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        assert memory.lessons(TASK) == ()
        memory.record_many([trial("t1", "rule:x", 1e-3), trial("t1", "sketch", 2e-3)])
        told = "matmul: rule:x is 2.00x the best other space over 1 tasks (1 for, 0 against)"
        assert memory.lessons(TASK) == (told,)
        memory.record_many([trial("t2", "rule:x", 2e-3), trial("t2", "sketch", 1e-3)])
        assert memory.lessons(TASK) == ()
        assert (
            memory.lessons(replace(TASK, features=replace(FIRST.features, op_class="pool"))) == ()
        )


def test_lessons_of_the_nearest_machine_say_so(tmp_path: Path) -> None:
    near, far = "llvm/haswell/avx2/256/2", "llvm/x60/rvv/256/8"
    with Memory.open(tmp_path / "m.sqlite") as memory:
        for machine_key, secs in ((far, 8e-3), (near, 3e-3), ("cuda/sm_90//0/132", 5e-3)):
            two = (trial("t1", "rule:x", 1e-3), trial("t1", "sketch", secs))
            memory.record_many(replace(one, machine_key=machine_key) for one in two)
        (told,) = memory.lessons(TASK)
        assert told.endswith(f"over 1 tasks (1 for, 0 against, on {near})")
        assert "3.00x" in told


def test_lessons_of_another_kind_of_machine_do_not_carry_over(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        two = (trial("t1", "rule:x", 1e-3), trial("t1", "sketch", 2e-3))
        memory.record_many(replace(one, machine_key="cuda/sm_90//0/132") for one in two)
        assert memory.lessons(TASK) == ()


def test_a_memory_that_recorded_keeps_its_lessons_when_it_closes(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        memory.record_many([trial("t1", "rule:x", 1e-3), trial("t1", "sketch", 2e-3)])
    with Memory.open(tmp_path / "m.sqlite") as memory:
        (lesson,) = memory.store.lessons()
        assert lesson.space == "rule:x"
        assert memory.stats().lessons == 1


def test_one_space_alone_teaches_nothing() -> None:
    assert Leaders().lessons("matmul", MACHINE) == ()
