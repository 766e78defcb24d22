# SPDX-License-Identifier: Apache-2.0
"""What a memory of an older kope must become, on every database that it may lie in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

import store_checks
from kope_tvm.memory import Experience, Store
from kope_tvm.memory.database import TABLES, connect
from kope_tvm.memory.rows import Machine, decision_row, machine_row, proposal_row, task_row
from kope_tvm.memory.schema import MIGRATIONS

FIRST: Experience = store_checks.FIRST
FAILED: Experience = store_checks.FAILED
MENDED: Experience = store_checks.MENDED
CARRIED: Experience = store_checks.CARRIED
NewPlace = Callable[[], str]

LATER = {
    1: ("repairs", "repair_turn", "signature", "source", "relative"),
    2: ("source", "relative"),
}
"""What a memory of a version knows nothing of."""


def make_version(
    place: str, version: int, monkeypatch: pytest.MonkeyPatch, *experiences: Experience
) -> None:
    """A memory as kope of that version left it."""
    with monkeypatch.context() as patch:
        patch.setattr("kope_tvm.memory.database.MIGRATIONS", MIGRATIONS[:version])
        database = connect(place, busy_secs=1.0)
        task = task_row(FIRST.task_key, FIRST.task_name, FIRST.features, 7.0)
        with database.writing() as connection:
            connection.execute(sa.insert(TABLES["task"]), task)
            machine = machine_row(Machine.from_key(FIRST.machine_key), "", 0.0)
            connection.execute(sa.insert(TABLES["machine"]), machine)
            for experience in experiences:
                proposal = proposal_row(experience)
                row = decision_row(experience, proposal["key"])
                kept = {name: value for name, value in row.items() if name not in LATER[version]}
                connection.execute(sa.insert(TABLES["proposal"]), proposal)
                connection.execute(sa.insert(TABLES["decision"]), kept)
        database.engine.dispose()


class MigrationChecks:
    """Inherited by a test class a database."""

    def test_a_memory_without_repairs_is_migrated(
        self, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = new_place()
        make_version(place, 1, monkeypatch, FIRST)
        with Store.open(place) as store:
            assert list(store.experiences()) == [FIRST]
            assert not store.record(FIRST)
            assert store.record_many([FAILED, MENDED]) == 2
        with Store.open(place) as store:
            assert list(store.experiences()) == [FIRST, FAILED, MENDED]
            assert store.stats().repairs == 1

    def test_a_memory_without_transfers_is_migrated(
        self, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = new_place()
        make_version(place, 2, monkeypatch, FAILED, FIRST, MENDED)
        with Store.open(place) as store:
            assert list(store.experiences()) == [FAILED, FIRST, MENDED]
            assert store.record_many([FAILED, FIRST, MENDED, CARRIED]) == 1
        with Store.open(place) as store:
            assert list(store.experiences()) == [FAILED, FIRST, MENDED, CARRIED]
            assert (store.stats().repairs, store.stats().transfers) == (1, 1)

    def test_a_task_is_as_new_as_its_newest_experience(
        self, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = new_place()
        make_version(place, 2, monkeypatch, FIRST)
        with Store.open(place) as store, store.database.reading() as connection:
            assert connection.execute(sa.select(TABLES["task"].c.seen_at)).scalars().all() == [1e3]
