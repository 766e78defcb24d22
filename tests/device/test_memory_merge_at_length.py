# SPDX-License-Identifier: Apache-2.0
"""Merging, on more examples than the quick tests take time for, and on files."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from merge_checks import Part, check_merges, merges, parts

pytestmark = [pytest.mark.device, pytest.mark.slow]

_SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(_SLOW, max_examples=25)
@given(parts())
def test_merge_is_idempotent_commutative_associative_and_lossless(some: tuple[Part, ...]) -> None:
    with merges(lambda: "sqlite://") as made:
        check_merges(made, *some)


@settings(_SLOW, max_examples=3)
@given(parts())
def test_files_merge_as_memories_in_memory_do(tmp_path: Path, some: tuple[Part, ...]) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    numbers = count()
    with merges(lambda: str(folder / f"{next(numbers)}.sqlite"), lambda: "sqlite://") as made:
        check_merges(made, *some)
