# SPDX-License-Identifier: Apache-2.0
"""A memory of an older kope opens, keeps what it holds under the same keys, and takes more."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from kope_tvm.memory import experience_key
from kope_tvm.memory.rows import decision_row
from migration_checks import MigrationChecks, NewPlace
from store_checks import CARRIED, FIRST, MENDED

KEYS = {
    "efa7c626d8ab933979dc1414b97397b1": FIRST,  # As version 1 of the schema had it,
    "35203e89e55e46b99e273fc23dd2113d": MENDED,  # and as version 2 had it.
}


class TestSqlite(MigrationChecks):
    @pytest.fixture
    def new_place(self, tmp_path: Path) -> NewPlace:
        numbers = count()
        return lambda: str(tmp_path / f"{next(numbers)}.sqlite")


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_those_of_the_version_that_knew_all_that_is_said(key: str) -> None:
    assert experience_key(KEYS[key]) == key
    assert decision_row(KEYS[key], "")["key"] == key


def test_what_is_said_later_makes_other_keys() -> None:
    relative = replace(FIRST, relative="{}")
    mended = replace(MENDED, source=CARRIED.source)
    assert len({experience_key(one) for one in (FIRST, relative, CARRIED, MENDED, mended)}) == 5
