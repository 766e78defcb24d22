# SPDX-License-Identifier: Apache-2.0
"""The store on a real PostgreSQL, started for these tests on a socket of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kope_tvm.errors import StorageError
from kope_tvm.memory import Store
from merge_checks import Part, check_merges, merges, parts
from migration_checks import MigrationChecks
from prune_checks import PruneChecks
from store_checks import FIRST, NewPlace, StoreChecks

pytestmark = pytest.mark.device

_OWNER = "postgres" if os.getuid() == 0 else None
"""PostgreSQL refuses to run as root; Debian's package brings this user."""


def _programs() -> Path:
    """Where initdb and pg_ctl are; Debian keeps them off the PATH, by version."""
    on_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)
    if on_path:
        folders.append(Path(on_path).parent)
    if not folders:
        pytest.skip("needs the Debian package postgresql")
    return folders[-1]


def _call(*command: str | Path) -> None:
    subprocess.run(command, user=_OWNER, cwd="/", check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def socket_dir() -> Iterator[Path]:
    """The folder of a running server's socket."""
    pytest.importorskip("psycopg", reason="needs the extra 'postgres'")
    programs = _programs()
    # Not pytest's own: the server's user must get in, and a socket's path be short.
    with tempfile.TemporaryDirectory(prefix="kope-pg-") as name:
        folder = Path(name)
        if _OWNER:
            shutil.chown(folder, _OWNER)
        _call(programs / "initdb", "-D", folder / "data", "-U", "kope", "-A", "trust", "-N")
        options = f"-c fsync=off -c listen_addresses= -c unix_socket_directories={folder}"
        server = (programs / "pg_ctl", "-D", folder / "data", "-w")
        _call(*server, "-l", folder / "log", "-o", options, "start")
        try:
            yield folder
        finally:
            _call(*server, "-m", "immediate", "stop")


class TestPostgres(StoreChecks, PruneChecks, MigrationChecks):
    @pytest.fixture
    def new_place(self, socket_dir: Path, request: pytest.FixtureRequest) -> NewPlace:
        """A schema a memory: far quicker to make than a database."""
        numbers = count()

        def make() -> str:
            import psycopg

            schema = f"m{abs(hash(request.node.name))}_{next(numbers)}"
            with psycopg.connect(host=str(socket_dir), user="kope", dbname="postgres") as server:
                server.execute(f"CREATE SCHEMA {schema}")
            options = f"-csearch_path%3D{schema}"
            return f"postgresql://kope@/postgres?host={socket_dir}&options={options}"

        return make

    def test_it_merges_with_a_file_either_way(self, new_place: NewPlace, tmp_path: Path) -> None:
        with Store.open(new_place()) as team, Store.open(tmp_path / "m.sqlite") as mine:
            mine.record(FIRST)
            assert (team.merge(mine), mine.merge(team)) == (1, 0)
            assert list(team.experiences()) == list(mine.experiences()) == [FIRST]

    @settings(
        max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(parts())
    def test_merge_is_lossless_also_across_databases(
        self, new_place: NewPlace, some: tuple[Part, ...]
    ) -> None:
        with merges(new_place, lambda: "sqlite://", new_place) as made:
            check_merges(made, *some)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs the extra 'postgres'")
    with pytest.raises(StorageError, match=r"start the server, or give another --memory"):
        Store.open(f"postgresql://kope@/postgres?host={tmp_path}")
