# SPDX-License-Identifier: Apache-2.0
"""Opening the memory's database, its transactions, and its failures in words a user can act on."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from kope_tvm.errors import StorageError, UsageError
from kope_tvm.memory.location import default_path, prepare
from kope_tvm.memory.rows import Row
from kope_tvm.memory.schema import BOOLEANS, COLUMNS, MIGRATIONS, SERIAL, VERSION_TABLE

TABLES = {
    name: sa.table(name, *(sa.column(c, sa.Boolean() if c in BOOLEANS else None) for c in columns))
    for name, columns in COLUMNS.items()
}
_NEWEST_HOLDS = {
    "task": ("features", "name"),
    "machine": ("facts", "name"),
    "lesson": ("text",),
}
"""Nodes whose rows a newer one replaces, and the columns that settle a tie."""
_PSYCOPG = "postgresql+psycopg"
_DRIVERS = {"sqlite": "sqlite", "postgresql": _PSYCOPG, "postgres": _PSYCOPG}
_MIGRATION_LOCK = 0x6B6F7065
"""An arbitrary number, the same for every kope: one process at a time migrates."""


class DamageError(StorageError):
    """What is stored is not as it was written."""


class Database:
    """A connected database with the newest schema."""

    def __init__(
        self, engine: sa.Engine, place: str, busy_secs: float, path: Path | None = None
    ) -> None:
        self.engine = engine
        self.path = path
        """The file that it is; None for a server and for one that is nowhere."""
        self.place = place
        """What messages call it; without a password."""
        self.busy_secs = busy_secs

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one moment and blocks nobody."""
        with self._translated(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that is on disk when it ends, or leaves nothing."""
        with self._translated(), self.engine.connect() as connection:
            connection = connection.execution_options(kope_writes=True)
            with connection.begin():
                yield connection

    def num_bytes(self) -> int:
        """What the file takes on disk; 0 where it is none."""
        return self.path.stat().st_size if self.path else 0

    def compact(self) -> None:
        """Give back to the disk what deleted rows took; a server does so by itself."""
        if self.engine.dialect.name != "sqlite":
            return
        with self._translated(), closing(self.engine.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise self._failure(error.orig or error) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> StorageError:
        what = str(error).strip().partition("\n")[0]
        if any(sign in what for sign in _DAMAGE):
            return DamageError(f"memory {self.place}: {what}; {_MADE_GOOD}")
        for sign, help_text in _HELP.items():
            if sign in what:
                help_text = help_text.format(busy_secs=self.busy_secs)
                return StorageError(f"memory {self.place}: {what}; {help_text}")
        return StorageError(f"memory {self.place}: {what}")

    def migrate(self) -> None:
        """Bring the schema to the newest version, all steps or none."""
        with self.reading() as connection:
            version = self._version(connection)
        if version == len(MIGRATIONS):
            return
        with self.writing() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            connection.exec_driver_sql(VERSION_TABLE)
            for number in range(self._version(connection) + 1, len(MIGRATIONS) + 1):
                self._apply(connection, number)

    def _apply(self, connection: sa.Connection, number: int) -> None:
        for statement in MIGRATIONS[number - 1]:
            serial = SERIAL[self.engine.dialect.name]
            connection.exec_driver_sql(statement.replace("{serial}", serial))
        row = {"version": number, "applied_at": time.time()}
        connection.execute(sa.insert(TABLES["schema_version"]), row)

    def _version(self, connection: sa.Connection) -> int:
        names = sa.inspect(connection).get_table_names()
        if "schema_version" not in names:
            if names:
                raise UsageError(
                    f"memory {self.place} holds tables of something else ({names[0]}, ...); "
                    "give kope a file or database of its own"
                )
            return 0
        found = connection.execute(sa.select(sa.func.max(TABLES["schema_version"].c.version)))
        version = int(found.scalar() or 0)
        if version > len(MIGRATIONS):
            raise UsageError(
                f"memory {self.place} has schema version {version}, this kope-tvm knows up to "
                f"{len(MIGRATIONS)}; upgrade kope-tvm or give another --memory"
            )
        return version


_DAMAGE = (
    "malformed", "not a database", "no such table", "no such column", "decode",
)  # fmt: skip
"""Words of the database's own messages; it has every table when it is opened."""
_MADE_GOOD = "the file is damaged; `kope memory verify --rebuild` makes it good"
_HELP = {
    "locked": "another process kept it locked for {busy_secs:g} s; end that process or give "
    "another --memory",
    "full": "free some space or move the file; what was recorded before is kept",
    "readonly": "make the file and its folder writable or give another --memory",
    "unable to open": "make its folder writable or give another --memory",
    "connect": "start the server, or give another --memory",
}
"""What would help, by a word in the database's own message."""


def connect(url: str | Path | None, busy_secs: float) -> Database:
    """The database at a URL or path, a damaged file set aside, with the newest schema."""
    target, path = _parse(url), file_of(url)
    place = str(path) if path else target.render_as_string(hide_password=True)
    if path is not None:
        prepare(path, busy_secs)
    database = Database(_engine(target, busy_secs), place, busy_secs, path)
    database.migrate()
    return database


def file_of(url: str | Path | None) -> Path | None:
    """The file that a URL or path means; None for a server's and for one that is nowhere."""
    target = _parse(url)
    is_file = target.get_backend_name() == "sqlite" and target.database not in (
        None,
        "",
        ":memory:",
    )
    return Path(str(target.database)).absolute() if is_file else None


def insert(connection: sa.Connection, name: str, rows: Sequence[Row]) -> int:
    """Insert what is new, let newer nodes replace older ones; how many rows that changed."""
    if not rows:
        return 0
    # Without the option SQLAlchemy forgets what psycopg counted over several rows.
    options = {"preserve_rowcount": True}
    values = rows[0] if len(rows) == 1 else rows
    statement = _upsert(connection.dialect.name, name)
    return connection.execute(statement, values, execution_options=options).rowcount


@lru_cache
def _upsert(dialect: str, name: str) -> Any:
    """Made once: to make it costs more than SQLite takes to carry it out."""
    make = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement: Any = make(TABLES[name])
    if name not in _NEWEST_HOLDS:
        return statement.on_conflict_do_nothing()
    new, old, ties = statement.excluded, TABLES[name].c, _NEWEST_HOLDS[name]
    newer = sa.tuple_(new.seen_at, *(bytewise(dialect, new[tie]) for tie in ties)) > (
        sa.tuple_(old.seen_at, *(bytewise(dialect, old[tie]) for tie in ties))
    )
    return statement.on_conflict_do_update(
        index_elements=["key"],
        set_={column: new[column] for column in COLUMNS[name] if column != "key"},
        where=newer,
    )


def bytewise(dialect: str, column: Any) -> Any:
    """A text column that compares alike in every database, whatever its language."""
    return column.collate("BINARY" if dialect == "sqlite" else "C")


def _parse(url: str | Path | None) -> sa.URL:
    if url is None or isinstance(url, Path) or "://" not in url:
        path = Path(url).expanduser() if url else default_path()
        return sa.URL.create("sqlite", database=str(path.absolute()))
    try:
        target = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise UsageError(f"memory URL cannot be read: {error}") from error
    if target.drivername in _DRIVERS:
        target = target.set(drivername=_DRIVERS[target.drivername])
    if target.drivername.partition("+")[0] not in _DRIVERS:
        raise UsageError(
            f"unknown memory URL scheme {target.drivername!r}; known: sqlite, postgresql, "
            "or a path without a scheme"
        )
    return target


def _engine(target: sa.URL, busy_secs: float) -> sa.Engine:
    is_sqlite = target.get_backend_name() == "sqlite"
    try:
        engine = sa.create_engine(
            target, connect_args={"timeout": busy_secs} if is_sqlite else {"connect_timeout": 10}
        )
    except ModuleNotFoundError as error:
        raise UsageError(
            f"memory at {target.drivername} needs the Python package {error.name!r}; "
            "pip install kope-tvm[postgres]"
        ) from error
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        shown = target.render_as_string(hide_password=True)
        raise UsageError(f"memory {shown}: {error}") from error
    if is_sqlite:
        _tune_sqlite(engine, busy_secs)
    return engine


def _tune_sqlite(engine: sa.Engine, busy_secs: float) -> None:
    def on_connect(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # Transactions begin where `on_begin` says, not earlier.
        with closing(connection.cursor()) as cursor:
            _use_log(cursor, time.monotonic() + busy_secs)
            cursor.execute("PRAGMA synchronous=NORMAL")

    def on_begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("kope_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    sa.event.listen(engine, "connect", on_connect)
    sa.event.listen(engine, "begin", on_begin)


def _use_log(cursor: sqlite3.Cursor, deadline: float) -> None:
    """Switch to the write-ahead log; SQLite does not wait by itself when two do so at once."""
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
