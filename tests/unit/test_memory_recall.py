# SPDX-License-Identifier: Apache-2.0
"""Recall ranks by likeness x value, warns once, and never shows what was refused for cheating."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiences import OTHER_SPEC, SOFTMAX, SPEC, failed, measured
from experiences import SOFTMAX_FIRST as FIRST
from kope_tvm.memory import Memory, Recalled
from kope_tvm.task import Task

TASK = Task("main", "f00d", "", SPEC, SOFTMAX)


def proposals(recalled: tuple[Recalled, ...]) -> list[str]:
    return [one.experience.proposal for one in recalled]


def test_an_empty_memory_recalls_nothing(memory: Memory) -> None:
    assert memory.recall(TASK) == ()


def test_of_one_task_the_fastest_comes_first_with_its_value(memory: Memory) -> None:
    memory.record_many([measured("b", 1.25e-3), measured("a", 1e-3), measured("c", 1.6e-3)])
    found = memory.recall(TASK)
    assert proposals(found) == ["a", "b", "c"]
    assert [one.value for one in found] == pytest.approx([1.0, 0.8, 0.625])
    assert [one.similarity for one in found] == [1.0, 1.0, 1.0]
    assert found[0].why == "softmax 512x1024 on this machine, 2x its baseline, similarity 1.00"


def test_the_same_task_outranks_a_similar_one_and_that_a_distant_one(memory: Memory) -> None:
    near = replace(SOFTMAX, spatial_extents=(512, 2048))
    far = replace(SOFTMAX, spatial_extents=(8192, 16384))
    memory.record_many(
        [
            replace(measured("far", 1e-3, "far"), features=far),
            replace(measured("near", 1e-3, "near"), features=near),
            measured("same", 5e-3),
        ]
    )
    found = memory.recall(TASK)
    assert proposals(found) == ["same", "near", "far"]
    # One loop of two is 2x as long: half an octave at 0.8 weight; four octaves halve likeness.
    assert found[1].similarity == pytest.approx(0.99 * 2 ** (-0.8 * 0.5 / 4))
    assert found[2].similarity == pytest.approx(0.99 * 2 ** (-0.8 * 4 / 4))


def test_a_poor_example_of_the_same_task_yields_to_a_good_one_of_a_near_one(
    memory: Memory,
) -> None:
    near = replace(SOFTMAX, spatial_extents=(512, 2048))
    memory.record_many(
        [
            measured("same-best", 1e-3),
            measured("same-poor", 1.6e-3),
            replace(measured("near", 7e-3, "near"), features=near),
        ]
    )
    assert proposals(memory.recall(TASK)) == ["same-best", "near", "same-poor"]


def test_this_machine_outranks_another(memory: Memory) -> None:
    memory.note_machine(OTHER_SPEC)
    memory.record_many([replace(measured("there", 1e-4), machine_key=OTHER_SPEC.key), FIRST])
    found = memory.recall(TASK)
    assert proposals(found) == ["best", "there"]
    assert found[1].value == 1.0
    # Another isa halves; half the vector length is one octave over five facts.
    assert found[1].similarity == pytest.approx(0.99 * 0.5 * 2 ** (-1 / 5 / 4))
    assert "on llvm/haswell/avx2/256/2" in found[1].why


def test_another_operator_class_comes_only_after_the_own(memory: Memory) -> None:
    reduce = replace(SOFTMAX, op_class="reduce")
    memory.record_many(
        [replace(measured("other", 1e-3, "r"), features=reduce), measured("own", 1e-3)]
    )
    found = memory.recall(TASK)
    assert proposals(found) == ["own", "other"]
    assert found[1].similarity == pytest.approx(0.99 * 0.2)


def test_a_proposal_comes_once_however_often_it_was_measured(memory: Memory) -> None:
    memory.record_many([replace(FIRST, order=i, run_secs=(1e-3 + i * 1e-6,)) for i in range(200)])
    memory.record(measured("another", 1.9e-3))
    found = memory.recall(TASK)
    assert proposals(found) == ["best", "another"]
    assert found[0].experience.order == 0


def test_the_last_place_goes_to_a_failure(memory: Memory) -> None:
    memory.record_many([measured(f"p{i}", 1e-3 + i * 1e-5) for i in range(10)])
    memory.record_many([failed("elsewhere", task_key="near"), failed("here")])
    found = memory.recall(TASK, limit=4)
    assert proposals(found) == ["p0", "p1", "p2", "here"]
    assert found[3].value == 0.0
    assert "failed: E_BUILD no such loop" in found[3].why


def test_without_failures_the_slowest_is_the_warning(memory: Memory) -> None:
    memory.record_many([measured("slow", 4e-3), measured("slower", 8e-3), FIRST])
    found = memory.recall(TASK)
    assert proposals(found) == ["best", "slow", "slower"]
    assert "slow (0.12 of the best known), 0.25x its baseline" in found[2].why


def test_what_works_here_is_no_warning_because_it_failed_elsewhere(memory: Memory) -> None:
    memory.record_many([FIRST, failed("best", task_key="near")])
    assert proposals(memory.recall(TASK)) == ["best"]


def test_cheats_and_device_failures_are_never_shown(memory: Memory) -> None:
    cheat = replace(measured("cheat", 1e-9), suspicious=True)
    refused = replace(failed("refused cheat", "E_NUMERICS"), suspicious=True)
    memory.record_many([cheat, refused, failed("unplugged", "E_DEVICE"), FIRST])
    (found,) = memory.recall(TASK)
    assert found.experience == FIRST
    assert found.value == 1.0


def test_simulated_times_do_not_devalue_real_ones(memory: Memory) -> None:
    memory.record_many([replace(measured("simulated", 1e-6), simulated=True), FIRST])
    assert {one.value for one in memory.recall(TASK)} == {1.0}


def test_symbolic_and_empty_extents_can_be_compared(memory: Memory) -> None:
    symbolic = replace(SOFTMAX, spatial_extents=(-1, 1024))
    empty = replace(SOFTMAX, spatial_extents=(0, 4), flops=0.0, bytes_moved=0.0)
    memory.record(replace(FIRST, features=symbolic))
    for key, features in (("f00d", symbolic), ("1", symbolic), ("2", SOFTMAX), ("3", empty)):
        (found,) = memory.recall(Task("main", key, "", SPEC, features))
        assert 0.0 < found.similarity <= 1.0


def test_every_lane_is_recalled(memory: Memory) -> None:
    plan = replace(measured("[]", 1e-3), lane="plan", space="")
    rewrite = replace(measured('{"script":"","then":null}', 1.25e-3), lane="rewrite", space="")
    memory.record_many([plan, rewrite, measured("trace", 2e-3)])
    found = memory.recall(TASK)
    assert [one.experience for one in found] == [plan, rewrite, measured("trace", 2e-3)]
    assert [one.value for one in found] == pytest.approx([1.0, 0.8, 0.5])


def test_of_very_many_the_fastest_are_found(memory: Memory) -> None:
    micros = [1000 + i * 7919 % 4000 for i in range(4000)]  # Each of 1000 to 4999, once.
    memory.record_many(measured(f"p{one}", one * 1e-6) for one in micros)
    found = memory.recall(TASK, limit=100)
    assert proposals(found)[:99] == [f"p{one}" for one in range(1000, 1099)]
    assert found[99].experience.proposal == "p4999"


def test_limits_are_kept(memory: Memory) -> None:
    memory.record_many([FIRST, failed("bad")])
    assert memory.recall(TASK, limit=0) == ()
    assert proposals(memory.recall(TASK, limit=1)) == ["best"]
    assert proposals(memory.recall(TASK, limit=2)) == ["best", "bad"]


def test_what_another_session_records_is_recalled_at_once(memory: Memory, tmp_path: Path) -> None:
    assert memory.recall(TASK) == ()
    with Memory.open(tmp_path / "m.sqlite") as other:
        other.record(FIRST)
    assert proposals(memory.recall(TASK)) == ["best"]
    memory.record(measured("faster", 5e-4))
    found = memory.recall(TASK)
    assert proposals(found) == ["faster", "best"]
    assert found[1].value == 0.5


def test_what_says_the_same_leaves_places_to_other_spaces_and_tasks(memory: Memory) -> None:
    near = replace(SOFTMAX, spatial_extents=(512, 2048))
    memory.record_many(measured(f"p{i}", 1e-3 + i * 1e-6) for i in range(20))
    memory.record(replace(measured("sketch", 1.4e-3), space="sketch"))
    memory.record(replace(measured("near", 1e-3, "near"), features=near))
    # 0.92 of a similar task is more than 0.85, 0.71 of another space more than 0.85^3 = 0.61.
    assert proposals(memory.recall(TASK))[:6] == ["p0", "near", "p1", "p2", "sketch", "p3"]


def test_the_nouns_import_no_database() -> None:
    program = (
        "import sys, kope_tvm.memory, kope_tvm.memory.experience;"
        "print({'sqlalchemy', 'networkx', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
