# SPDX-License-Identifier: Apache-2.0
"""Progress is shown to people and nobody else, in units that they read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kope_tvm.outcome import Measurement
from kope_tvm.progress import LiveProgress, SilentProgress, progress_on, spell_secs


@pytest.mark.parametrize(
    ("secs", "text"),
    [(2.0, "2 s"), (1.25e-3, "1.25 ms"), (5e-6, "5 µs"), (7e-9, "7 ns"), (math.inf, "-"), (0, "-")],
)
def test_times_are_spelt_for_people(secs: float, text: str) -> None:
    assert spell_secs(secs) == text


def test_progress_is_silent_without_a_terminal(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+", encoding="utf-8") as stream:
        assert isinstance(progress_on(stream), SilentProgress)


def test_live_progress_shows_trials_best_and_failures(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+", encoding="utf-8") as stream:
        progress = LiveProgress(stream)
        progress.start(4)
        progress.note("resumed [2] trials")
        progress.spent(120)
        progress.trial("fused[a]", Measurement((1e-3,)), 1e-3, 1)
        progress.trial("fused[a]", Measurement(error="x", code="E_RUN"), 1e-3, 2)
        progress.close()
        stream.seek(0)
        shown = stream.read()
    assert "resumed [2] trials" in shown
    assert "2/4" in shown
    assert "fused[a] best 1 ms · 1 failed · 120 tokens" in " ".join(shown.split())
