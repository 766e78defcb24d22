# SPDX-License-Identifier: Apache-2.0
"""Functions and schedules that cheat: every one is refused, for its reason, at every door."""

from __future__ import annotations

from pathlib import Path

import pytest
from door import DOORS, STRANGER, Answers, Entry, answers, entries
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

from kope_tvm.debugger import near_misses
from kope_tvm.memory.store import Store

CHEATS = entries("cheats")
CASES = [(entry, door) for entry in CHEATS for door in entry.doors]
SUSPICIOUS = {
    *("E_ADDRESS", "E_ANNOTATION", "E_BRANCH", "E_CACHED", "E_CALL", "E_DTYPE"),
    *("E_INPUT_WRITTEN", "E_LITERAL", "E_MALFORMED"),
}
"""What nobody does by mistake: a rule comes of it, never an example, and no repair."""

F32 = "float32"


@T.prim_func(s_tir=True)
def _product(
    A: T.Buffer((16, 16), F32), B: T.Buffer((16, 16), F32), C: T.Buffer((16, 16), F32)
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def _zeros(
    A: T.Buffer((16, 16), F32), B: T.Buffer((16, 16), F32), C: T.Buffer((16, 16), F32)
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for i, j in T.grid(16, 16):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.float32(0)


@pytest.fixture(scope="module")
def refused() -> Answers:
    TensorIntrin.register("cheat_zeros_16x16", _product, _zeros, override=True)
    return answers(CHEATS)


def test_there_are_enough_of_them() -> None:
    assert len({entry.name for entry in CHEATS}) == len(CHEATS) >= 24
    assert {door for _, door in CASES} == set(DOORS)


@pytest.mark.parametrize(
    ("entry", "door"), [pytest.param(*case, id=f"{case[0].name}-{case[1]}") for case in CASES]
)
def test_a_cheat_is_refused_for_its_reason(entry: Entry, door: str, refused: Answers) -> None:
    answer = refused[entry.name, door]
    assert not answer.is_best
    assert answer.code in entry.codes[door], answer.experience.reason
    assert 0 < len(answer.experience.reason) < 500
    assert answer.experience.run_secs == ()
    assert answer.experience.suspicious == (answer.code in SUSPICIOUS)


def test_what_is_no_mistake_gets_no_repair(refused: Answers) -> None:
    trials = [answer.trial for answer in refused.values()]
    found = {miss.trial.proposal.origin.change: miss for miss in near_misses(trials, STRANGER)}
    for (name, _), answer in refused.items():
        if answer.code in SUSPICIOUS:
            assert name not in found or found[name].code not in SUSPICIOUS
    assert {miss.code for miss in found.values()} >= {"E_NUMERICS", "E_COVERAGE", "E_STEP"}
    assert all(miss.reason for miss in found.values())


def test_the_memory_keeps_the_reason_of_each(refused: Answers, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "memory.sqlite")) as store:
        store.record_many([answer.experience for answer in refused.values()])
        kept = {(one.change, one.code, one.reason, one.suspicious) for one in store.experiences()}
    assert kept == {
        (name, answer.code, answer.experience.reason, answer.code in SUSPICIOUS)
        for (name, _), answer in refused.items()
    }
