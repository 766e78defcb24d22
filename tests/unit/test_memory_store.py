# SPDX-License-Identifier: Apache-2.0
"""The store keeps every acknowledged experience, whoever writes, however often, whatever dies."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from store_checks import NewPlace, StoreChecks


class TestSqlite(StoreChecks):
    @pytest.fixture
    def new_place(self, tmp_path: Path) -> NewPlace:
        numbers = count()
        return lambda: str(tmp_path / f"{next(numbers)}.sqlite")
