# SPDX-License-Identifier: Apache-2.0
"""Of one program on one machine the last word counts: what was refuted is an example no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kope_tvm.memory import Experience, Memory
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Features, Task

SPEC = TargetSpec("host", {"kind": "llvm", "mcpu": "znver5"}, Facts("avx512", 512, 32, 2))
OTHER_KEY = TargetSpec("old", {"kind": "llvm", "mcpu": "haswell"}, Facts("avx2", 256, 16, 2)).key
SOFTMAX = Features("softmax", (512, 1024), (), ("float32", "float32"), 4e6, 4e6, 4)
TASK = Task("main", "f00d", "", SPEC, SOFTMAX)


def right(state: str, secs: float, space: str = "rule:a", task_key: str = "f00d") -> Experience:
    return Experience(
        task_key=task_key, task_name="main", features=SOFTMAX, machine_key=SPEC.key, state=state,
        parent="", lane="decisions", space=space, proposal=state, proposer="rules", change="",
        round_no=1, order=0, accepted=True, code="", reason="", suspicious=False, run_secs=(secs,),
        baseline_secs=8.0, noise=0.0, tokens=0, cites=(), seed=1, toolchain="tvm 0.27.0.post1",
        simulated=False, run_id="run", at=1000.0,
    )  # fmt: skip


def refuted(experience: Experience, code: str = "E_NUMERICS") -> Experience:
    return replace(experience, code=code, reason="max_rel 1 at [0]", run_secs=(), at=1001.0)


def shown(memory: Memory) -> dict[str, tuple[str, float]]:
    return {
        one.experience.proposal: (one.experience.code, one.value) for one in memory.recall(TASK)
    }


@pytest.mark.parametrize("is_known_before", [True, False])
def test_what_was_refuted_is_a_warning_and_the_next_is_the_best(
    memory: Memory, is_known_before: bool
) -> None:
    fast, slow = right("fast", 1.0), right("slow", 4.0)
    memory.record_many([fast, slow])
    if is_known_before:
        assert shown(memory) == {"fast": ("", 1.0), "slow": ("", 0.25)}
    memory.record(refuted(fast))
    assert shown(memory) == {"slow": ("", 1.0), "fast": ("E_NUMERICS", 0.0)}


def test_who_cheated_is_not_shown_at_all(memory: Memory) -> None:
    fast = right("fast", 1.0)
    memory.record_many([fast, right("slow", 4.0), replace(refuted(fast), suspicious=True)])
    assert shown(memory) == {"slow": ("", 1.0)}


@pytest.mark.parametrize(
    "word",
    [
        refuted(right("fast", 1.0), "E_DEVICE"),
        replace(refuted(right("fast", 1.0)), machine_key=OTHER_KEY),
        replace(refuted(right("fast", 1.0)), task_key="beef"),
        replace(refuted(right("fast", 1.0)), proposal="another way to the same program"),
        replace(refuted(right("other", 1.0)), proposal="fast"),
    ],
    ids=["of the device", "another machine", "another task", "another proposal", "another state"],
)
def test_only_the_same_program_on_the_same_machine_is_refuted(
    memory: Memory, word: Experience
) -> None:
    memory.record_many([right("fast", 1.0), word])
    assert shown(memory)["fast"] == ("", 1.0)


def test_no_lesson_follows_from_what_was_refuted(memory: Memory) -> None:
    tasks = ("f00d", "beef", "cafe")
    fast = [right(f"fast {key}", 1.0, "rule:a", key) for key in tasks]
    slow = [right(f"slow {key}", 2.0, "rule:b", key) for key in tasks]
    memory.record_many([*fast, *slow])
    (lesson, *_) = memory.lessons(TASK)
    assert lesson.startswith("softmax: rule:a is 2.00x the best other space over 3 tasks")
    memory.record_many(map(refuted, fast))
    assert memory.lessons(TASK) == ()
