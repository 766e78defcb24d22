# SPDX-License-Identifier: Apache-2.0
"""What a page tells of a work_dir, in numbers that the work_dir was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope_tvm.errors import UsageError
from kope_tvm.report_page.page import markdown_page
from kope_tvm.report_page.story import Story, best_so_far, read_story
from kope_tvm.run_record import RUNS, read_runs
from report_story import COMMAND, STORY_OF_SOFTMAX, make_work_dir


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return read_story(make_work_dir(tmp_path / "work"), None, tmp_path)


def test_gains_count_what_was_not_proved_as_a_fallback(story: Story) -> None:
    assert (story.gains.num_optimised, story.gains.num_functions) == (1, 2)
    assert story.gains.of_all == pytest.approx(4.0)
    assert story.gains.of_optimised == pytest.approx(16.0)


def test_a_cheat_and_a_failure_never_move_the_curve() -> None:
    assert best_so_far(STORY_OF_SOFTMAX) == (4e-3, 1e-3, 5e-4, 5e-4, 5e-4, 5e-4)


def test_refusals_tokens_and_cost(story: Story) -> None:
    assert story.refusals == (("E_NUMERICS", 1),)
    found = {one.section: (one.sent > 0, one.dropped) for one in story.tokens}
    assert found["reply"] == (True, 0)
    assert found["hardware"] == (True, 0)
    assert found["menu"] == (False, 77)
    text = markdown_page(story)
    assert "1000 tokens, 1 calls of a model, $0.0042" in text
    assert "5% of it kope's own" in text
    assert COMMAND in text


def test_markdown_keeps_its_tables_whole(story: Story) -> None:
    (row,) = [line for line in markdown_page(story).splitlines() if line.startswith("| softmax |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        "softmax", "softmax 512x1024 float32", "6", "8 ms", "500 µs", "16.00x", "-", "replaced",
    ]  # fmt: skip


def test_a_run_that_was_killed_has_no_cost_and_the_next_line_is_whole(tmp_path: Path) -> None:
    folder = make_work_dir(tmp_path / "work")
    with (folder / RUNS).open("a") as file:
        file.write('{"event": "ended", "run_')
    make_again = read_runs(folder)
    assert [run.call.command for run in make_again] == [COMMAND]


def test_an_empty_folder_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a folder that `kope tune` worked in"):
        read_story(tmp_path, None, tmp_path)
