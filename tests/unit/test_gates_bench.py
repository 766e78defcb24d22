# SPDX-License-Identifier: Apache-2.0
"""What a run of right programs through the gates says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kope_tvm.bench.gates import new_bench, resumed, write
from kope_tvm.bench.gates_result import Cost, GatesBench, Passage, Reference, from_json, spell
from kope_tvm.errors import UsageError
from kope_tvm.target import TargetSpec

MATMUL, GELU = "op:matmul", "op:gelu"
CHEAP = Cost(own_secs=0.1, static_secs=0.1, device_secs=0.8, check_secs=0.0)
DEAR = Cost(own_secs=0.0, static_secs=0.0, device_secs=1.0, check_secs=0.3)
DEAREST = Cost(own_secs=0.0, static_secs=0.1, device_secs=1.9, check_secs=0.5)


@pytest.fixture
def bench() -> GatesBench:
    empty = new_bench(2000, 1, 16, TargetSpec("host", {"kind": "llvm"}))
    passages = (
        Passage(MATMUL, 1, "a", run_secs=1.0, is_proven=True, cost=CHEAP),
        Passage(MATMUL, 2, "b", run_secs=2.0, is_proven=True, cost=DEAR),
        Passage(MATMUL, 4, "c", "E_TIMEOUT", "killed after 10 s"),
        Passage(GELU, 1, "d", "E_CACHED", "1 s on new inputs", cost=DEAREST),
    )
    references = {MATMUL: Reference(secs=3.0, check_secs=2.0), GELU: Reference(1.0, 0.0)}
    return replace(empty, passages=passages, references=references)


def test_a_refusal_is_false_but_for_what_did_not_end(bench: GatesBench) -> None:
    assert [each.state for each in bench.false_refusals] == ["d"]
    assert bench.answered == 3


def test_the_share_of_the_gates(bench: GatesBench) -> None:
    assert [each.share for each in bench.costs] == pytest.approx([0.1, 0.3, 0.3])
    assert bench.share == pytest.approx((0.1 + 0.3 + 0.6) / (1.0 + 1.0 + 2.0))
    assert bench.median_share == pytest.approx(0.3)
    assert bench.share_with_references == pytest.approx((1.0 + 2.0) / (4.0 + 4.0))


def test_what_nobody_measured_has_no_share() -> None:
    empty = new_bench(2000, 1, 16, TargetSpec("host", {"kind": "llvm"}))
    assert (empty.share, empty.median_share, empty.share_with_references) == (0.0, 0.0, 0.0)
    assert "0 false refusals of 0 programs" in spell(empty)


def test_it_says_what_was_refused_and_what_it_cost(bench: GatesBench) -> None:
    lines = spell(bench).splitlines()
    assert lines[0] == "op:gelu draw 1: E_CACHED 1 s on new inputs"
    assert lines[1].startswith("1 false refusals of 3 programs, 2 right on every case; 1 more")
    assert lines[2].startswith("gates: 25.0% of the wall time of 3 ordinary trials, median 30.0%")


def test_a_file_goes_on_where_it_ended(bench: GatesBench, tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    write(bench, file)
    plain = json.loads(file.read_text("utf-8"))
    assert plain["false_refusals"][0]["code"] == "E_CACHED"
    assert from_json(plain) == bench
    asked = new_bench(300, 1, 16, TargetSpec("host", {"kind": "llvm"}))
    assert resumed(file, asked) == replace(bench, candidates=300, command=asked.command)
    assert resumed(tmp_path / "none.json", asked) == asked


def test_a_file_of_another_run_is_refused(bench: GatesBench, tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    write(bench, file)
    with pytest.raises(UsageError, match="holds seed 1, ordinary 16; asked for seed 2"):
        resumed(file, replace(bench, seed=2))
    file.write_text("[]", "utf-8")
    with pytest.raises(UsageError, match="expected a file that this command wrote"):
        resumed(file, bench)
