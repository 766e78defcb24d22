# SPDX-License-Identifier: Apache-2.0
"""`tune` spends its last trials on what single decisions are worth; the memory has the ratios."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope_tvm.memory.memory import Memory
from kope_tvm.tuning import tune

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_last_trials_are_edges_from_what_they_undo(tmp_path: Path) -> None:
    memory = str(tmp_path / "memory.sqlite")
    operator = "op:matmul:m=64,n=64,k=64,dtype=float32"
    work_dir = tmp_path / "work"
    tune(operator, "host", work_dir, 9, proposer="experience", memory=memory, seed=1, rewind=3)
    with Memory.open(memory) as opened:
        tried = list(opened.store.experiences())
    assert [one.proposer == "rewind" for one in tried] == [False] * 6 + [True] * 3
    states = {one.state for one in tried[:6]}
    for one in tried[6:]:
        assert one.parent in states
        assert one.change.startswith("undo #")
