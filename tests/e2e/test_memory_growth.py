# SPDX-License-Identifier: Apache-2.0
"""The suite `memory` measures a memory of each size, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from kope_tvm.bench.memory_growth import growth_curve


def test_a_curve_has_a_point_a_size_and_keeps_what_it_made(tmp_path: Path) -> None:
    said: list[str] = []
    (small,) = growth_curve((128,), tmp_path, said.append)
    assert small.edges == 128
    assert small.file_bytes > 128 * 1000
    assert 0 < small.recall_p50_secs <= small.recall_p99_secs
    assert small.records_per_sec > 0
    assert said == ["writing 128 edges"]
    (kept,) = tmp_path.iterdir()
    growth_curve((128,), tmp_path, said.append)
    assert said == ["writing 128 edges"]
    assert [*tmp_path.iterdir()] == [kept]
