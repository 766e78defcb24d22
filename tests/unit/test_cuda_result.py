# SPDX-License-Identifier: Apache-2.0
"""Ratios of the GPU suite: chosen by some turns, reported by the others, a fallback is 1.0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kope_tvm.bench.cuda_result import CudaBench, Line


def line(name: str, ours: float, torch: float) -> Line:
    turns = {"torch-compile": (torch,) * 4, "kope": (ours,) * 4}
    nothing: dict[str, str] = {}
    return Line(name, 1, turns, {}, {}, nothing, nothing, {"kope": 1.0}, {}, {}, 0.0, "")


def bench(*lines: Line) -> CudaBench:
    return CudaBench("kope bench", "2026-11-30", {}, {}, lines)


def test_a_faster_kernel_counts_and_a_slower_one_falls_back() -> None:
    found = bench(line("fast", 1.0, 4.0), line("slow", 2.0, 1.0))
    assert found.with_fallback == pytest.approx(2.0)
    assert found.optimised_only == pytest.approx(4.0)
    assert found.worst == 1.0


def test_two_per_cent_are_not_enough_to_be_chosen() -> None:
    assert not line("near", 1.0, 1.02).is_chosen


def test_the_turns_that_choose_are_not_those_that_are_reported() -> None:
    turns = {"torch-compile": (2.0, 1.0), "kope": (1.0, 1.0)}
    lucky = Line("lucky", 1, turns, {}, {}, {}, {}, {"kope": 1.0}, {}, {}, 0.0, "")
    assert lucky.is_chosen
    assert lucky.over_torch == 1.0


def test_without_stock_there_is_no_ratio_over_it() -> None:
    assert bench(line("fast", 1.0, 4.0)).over_stock == 0.0


def test_the_kept_figures_say_what_their_own_turns_say(project_dir: Path) -> None:
    kept = json.loads((project_dir / "docs/measured/cuda-2026-12-01.json").read_text())
    lines = tuple(Line(**one) for one in kept["lines"])
    assert len(lines) == 24
    assert bench(*lines).with_fallback == pytest.approx(kept["with_fallback"])
    assert all(one.over_torch >= 0.97 for one in lines)
