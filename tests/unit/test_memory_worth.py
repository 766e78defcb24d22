# SPDX-License-Identifier: Apache-2.0
"""What recall learns: credit by what came of it, freshness, and the price of a long text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from experiences import OTHER_SPEC, SOFTMAX, SPEC, failed, measured
from experiences import SOFTMAX_FIRST as FIRST
from kope_tvm.cli import main
from kope_tvm.memory import Experience, Memory, Recalled
from kope_tvm.memory.experience import Factors
from kope_tvm.task import Task

TASK = Task("main", "f00d", "", SPEC, SOFTMAX)


def proposals(recalled: tuple[Recalled, ...]) -> list[str]:
    return [one.experience.proposal for one in recalled]


def outcome(name: str, cites: tuple[str, ...], secs: float) -> Experience:
    """What was made elsewhere with the cited programs in view."""
    made: Experience = measured(name, secs, "elsewhere")
    return replace(made, cites=cites)


def factors(found: tuple[Recalled, ...]) -> dict[str, Factors]:
    return {one.experience.proposal: one.factors for one in found if one.factors is not None}


def test_what_led_to_right_and_fast_programs_outranks_its_equals(memory: Memory) -> None:
    memory.record_many([measured("useful", 1e-3), measured("unused", 1e-3)])
    assert proposals(memory.recall(TASK)) == ["unused", "useful"]
    memory.record_many(outcome(f"o{i}", ("useful",), 1e-3) for i in range(4))
    found = memory.recall(TASK, limit=20)
    assert [name for name in proposals(found) if name.startswith("u")] == ["useful", "unused"]
    # Four right outcomes, each the best of its task, beside a prior of four worth 0.8.
    assert factors(found)["useful"].q_valid == pytest.approx((4 * 0.8 + 4) / 8)
    assert factors(found)["useful"].q_fast == pytest.approx(0.8**0.5)
    assert (factors(found)["unused"].q_valid, factors(found)["unused"].q_fast) == (0.8, 0.8)


def test_what_misled_falls_behind(memory: Memory) -> None:
    memory.record_many([measured("misleading", 1e-3), measured("slower", 1.2e-3)])
    assert proposals(memory.recall(TASK)) == ["misleading", "slower"]
    refused = [failed(f"f{i}", task_key="elsewhere") for i in range(4)]
    memory.record_many(replace(one, cites=("misleading",)) for one in refused)
    found = memory.recall(TASK)
    assert proposals(found)[:2] == ["slower", "misleading"]
    assert factors(found)["misleading"].q_valid == pytest.approx(4 * 0.8 / 8)
    assert factors(found)["misleading"].q_fast == pytest.approx(0.8)


def test_slow_outcomes_lower_q_fast_by_no_more_than_a_bound(memory: Memory) -> None:
    memory.record_many([measured("cited", 1e-3), measured("best", 1e-3, "elsewhere")])
    memory.record(outcome("half", ("cited",), 2e-3))
    (half,) = {one.q_fast for one in factors(memory.recall(TASK)).values() if one.q_fast != 0.8}
    assert half == pytest.approx((0.8**4 * 0.5) ** (1 / 5))
    memory.record(outcome("hundredth", ("cited",), 1e-1))
    bounded = factors(memory.recall(TASK, limit=20))["cited"].q_fast
    assert bounded == pytest.approx((0.8**4 * 0.5 * 0.25) ** (1 / 6))


def test_a_lost_device_is_nobodys_fault_and_a_cheat_is(memory: Memory) -> None:
    memory.record_many([measured("a", 1e-3), measured("b", 1e-3)])
    memory.record(replace(failed("gone", "E_DEVICE", "elsewhere"), cites=("a",)))
    memory.record(replace(outcome("cheat", ("b",), 1e-9), suspicious=True))
    found = factors(memory.recall(TASK))
    assert found["a"].q_valid == pytest.approx(0.8)
    assert found["b"].q_valid == pytest.approx(4 * 0.8 / 5)


def test_credit_does_not_depend_on_the_order_of_what_came(tmp_path: Path) -> None:
    past = [
        measured("a", 1e-3), measured("b", 1.1e-3), outcome("o1", ("a", "b"), 1e-3),
        outcome("o2", ("b",), 4e-3), replace(failed("o3", task_key="near"), cites=("a", "never")),
    ]  # fmt: skip
    with Memory.open(tmp_path / "1.sqlite") as left, Memory.open(tmp_path / "2.sqlite") as right:
        left.record_many(past)
        for one in reversed(past):
            right.recall(TASK)  # Takes in one after another, the cited ones last.
            right.record(one)
        one_by_one = factors(right.recall(TASK, limit=20))
        assert one_by_one == factors(left.recall(TASK, limit=20))
        right.merge(left)
        assert factors(right.recall(TASK, limit=20)) == one_by_one


def test_another_toolchain_counts_half_and_years_count_little(memory: Memory) -> None:
    year = 365.25 * 86400
    old = replace(measured("old", 1e-3), at=1e9)
    newest = replace(measured("newest", 1.2e-3), at=1e9 + 3 * year)
    other = replace(newest, proposal="other", state="other", toolchain="tvm 0.26.0", at=1e9 + year)
    oldest = replace(measured("oldest", 1e-3), at=1e9 - 30 * year)
    memory.record_many([old, newest, other, oldest])
    found = factors(memory.recall(TASK, limit=20))
    assert found["newest"].freshness == pytest.approx(1.0, abs=1e-3)
    assert found["old"].freshness == pytest.approx(0.5, abs=1e-3)
    assert found["other"].freshness == pytest.approx(0.5 * 2 ** (-2 / 3), abs=1e-3)
    assert found["oldest"].freshness == 0.25
    assert proposals(memory.recall(TASK))[:2] == ["newest", "old"]


def test_a_dear_text_loses_to_a_cheap_one_of_nearly_equal_worth(memory: Memory) -> None:
    dear = replace(measured("dear", 1e-3), proposal="x" * 8192)
    memory.record_many([dear, measured("cheap", 1.1e-3), measured("cheaper", 1.2e-3)])
    found = memory.recall(TASK)
    assert [one.experience.state for one in found] == ["cheap", "dear", "cheaper"]
    assert found[1].factors is not None
    assert found[1].factors.tokens == 2048
    # 2048 tokens are 16 times those that cost nothing, and a better one of its kind comes before.
    assert found[1].factors.score == pytest.approx(0.8 * 0.8 / 16**0.05 * 0.85)


def test_the_factors_make_up_the_score(memory: Memory) -> None:
    memory.note_machine(OTHER_SPEC)
    near = replace(SOFTMAX, spatial_extents=(512, 2048))
    there = replace(measured("there", 1e-3, "near"), features=near, machine_key=OTHER_SPEC.key)
    slower_there = replace(there, proposal="slower", run_secs=(1.25e-3,), space="sketch")
    memory.record_many([there, slower_there])
    slower = memory.recall(TASK)[1]
    why = slower.factors
    assert why is not None
    assert why.task_similarity * why.machine_similarity == pytest.approx(slower.similarity)
    assert slower.value == pytest.approx(0.8)
    parts = slower.similarity * slower.value * why.q_valid * why.q_fast * why.freshness
    assert why.score == pytest.approx(parts)


def test_the_command_shows_what_makes_up_a_score(tmp_path: Path) -> None:
    memory = str(tmp_path / "m.sqlite")
    with Memory.open(memory) as opened:
        opened.record_many([replace(FIRST, proposal="x" * 800), failed("bad")])
    command = ["memory", "recall", "op:softmax:m=512,n=1024", "--memory", memory]
    done = CliRunner().invoke(main, [*command, "--why"])
    assert done.exit_code == 0, done.output
    header, example, warning = done.stdout.splitlines()
    assert header.split()[:3] == ["TASK", "SCORE", "TASK"]
    # Value, Q_valid, Q_fast, freshness and tokens.
    assert example.split()[4:9] == ["1.00", "0.80", "0.80", "1.00", "200"]
    assert warning.split()[4:9] == ["0.00", "0.80", "0.80", "1.00", "0"]
    plain = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    (recalled, _) = plain["tasks"]["softmax"]
    why = recalled["factors"]
    assert (why["q_valid"], why["q_fast"], why["tokens"]) == (0.8, 0.8, 200)
    expected = recalled["similarity"] * 0.8 * 0.8 * (128 / 200) ** 0.05
    assert why["score"] == pytest.approx(expected)
