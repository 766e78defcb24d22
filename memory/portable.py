# SPDX-License-Identifier: Apache-2.0
"""A memory as text: one JSON object a line, the same bytes for the same content.

After a header come the tasks and machines by key, the experiences from the oldest on, and the
lessons by key. An experience is spelled in `Experience`'s own names, without what has its default,
under the key by which `cites` and `source` name it; its features are its task's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, NamedTuple, TextIO

import sqlalchemy as sa

from kope_tvm.errors import UsageError
from kope_tvm.memory import rows
from kope_tvm.memory.batch import Batch
from kope_tvm.memory.database import TABLES, bytewise, insert
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.paging import CHUNK
from kope_tvm.memory.store import Store
from kope_tvm.task import Features

VERSION = 1
_HEADER = "kope_memory"
_FIELDS = {item.name: item for item in fields(Experience) if item.name != "features"}
_NODES = {"task": "features", "machine": "facts"}
"""Nodes that have a line of their own, and the column that is JSON."""


class _Line(NamedTuple):
    number: int
    kind: str
    value: Mapping[str, Any]


def write_jsonl(store: Store, file: TextIO) -> int:
    """Write all that a memory holds; how many experiences that were."""
    _write(file, _HEADER, {"version": VERSION})
    for name, column in _NODES.items():
        for row in _nodes(store, name):
            value = {"key": row["key"], "name": row["name"], "seen_at": row["seen_at"]}
            _write(file, name, value | {column: json.loads(row[column])})
    num_written = 0
    for experience in store.chronicle():
        _write(file, "experience", _spelled(experience))
        num_written += 1
    for lesson in store.lessons():
        _write(file, "lesson", asdict(lesson))
    return num_written


def read_jsonl(file: TextIO) -> Iterator[Experience]:
    """The experiences of a file.

    Raises UsageError, naming the line, where it was not written by `write_jsonl` or was altered.
    """
    features: dict[str, Features] = {}
    for line in _lines(file):
        if line.kind == "task":
            features[line.value["key"]] = _features(line)
        elif line.kind == "experience":
            yield _experience(line, features)


def load_jsonl(store: Store, file: TextIO) -> int:
    """Take in all that a file holds but its lessons, which follow; how many experiences were new.

    Safe to repeat and to break off. Raises UsageError as `read_jsonl` does; what came before the
    line is kept.
    """
    features: dict[str, Features] = {}
    batch: list[Experience] = []
    num_new = 0
    for line in _lines(file):
        if line.kind in _NODES:
            _keep_node(store, line, features)
        elif line.kind == "experience":
            batch.append(_experience(line, features))
        if len(batch) == CHUNK:
            num_new += _record(store, batch)
            batch.clear()
    return num_new + _record(store, batch)


def _record(store: Store, experiences: list[Experience]) -> int:
    """Keep them; their tasks are as their own lines said."""
    batch = Batch(set())
    for experience in experiences:
        batch.add_edge(experience)
    with store.database.writing() as connection:
        return batch.write(connection)


def _write(file: TextIO, kind: str, value: Mapping[str, Any]) -> None:
    file.write(json.dumps({kind: value}, sort_keys=True, separators=(",", ":")) + "\n")


def _nodes(store: Store, name: str) -> list[rows.Row]:
    table = TABLES[name]
    with store.database.reading() as connection:
        query = sa.select(table).order_by(bytewise(connection.dialect.name, table.c.key))
        return [row._asdict() for row in connection.execute(query)]


def _spelled(experience: Experience) -> rows.Row:
    values = {name: getattr(experience, name) for name in _FIELDS}
    told = {name: value for name, value in values.items() if value != _FIELDS[name].default}
    return told | {"key": rows.experience_key(experience)}


def _lines(file: TextIO) -> Iterator[_Line]:
    for number, text in enumerate(file, start=1):
        try:
            ((kind, value),) = json.loads(text).items()
            line = _Line(number, kind, dict(value))
        except (ValueError, TypeError, AttributeError) as error:
            raise _unreadable(number, f"{text[:40]!r}", "one JSON object of one key") from error
        if number == 1:
            _check_header(line)
        yield line


def _check_header(line: _Line) -> None:
    version = line.value.get("version")
    if line.kind != _HEADER or version != VERSION:
        raise _unreadable(
            line.number, f"{line.kind} of version {version}", f"{_HEADER} of version {VERSION}"
        )


def _features(line: _Line) -> Features:
    try:
        return rows.features_from(json.dumps(line.value["features"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise _unreadable(line.number, f"a task without {error}", "its features") from error


def _keep_node(store: Store, line: _Line, features: dict[str, Features]) -> None:
    try:
        key, name, seen_at = (line.value[each] for each in ("key", "name", "seen_at"))
        if line.kind == "task":
            features[key] = _features(line)
            row = rows.task_row(key, name, features[key], seen_at)
        else:
            machine = rows.Machine(key, rows.facts_from(json.dumps(line.value["facts"])))
            row = rows.machine_row(machine, name, seen_at)
    except (KeyError, TypeError) as error:
        raise _unreadable(line.number, f"a {line.kind} without {error}", "all of it") from error
    with store.database.writing() as connection:
        insert(connection, line.kind, [row])


def _experience(line: _Line, features: Mapping[str, Features]) -> Experience:
    values = dict(line.value)
    key = values.pop("key", "")
    missing = [n for n, item in _FIELDS.items() if item.default is MISSING and n not in values]
    unknown = values.keys() - _FIELDS.keys()
    if missing or unknown or values["task_key"] not in features:
        what = ", ".join(sorted([*missing, *unknown])) or "a task that no line tells of"
        raise _unreadable(line.number, f"an experience with {what} missing or unknown", "version 1")
    try:
        for name in ("run_secs", "cites"):
            values[name] = tuple(values[name])
        experience = rows.clean(Experience(features=features[values["task_key"]], **values))
    except (TypeError, ValueError, AttributeError) as error:
        raise _unreadable(line.number, f"an experience ({error})", "an experience") from error
    if rows.experience_key(experience) != key:
        raise _unreadable(line.number, f"content that is not {key or 'under a key'}", "its own key")
    return experience


def _unreadable(number: int, given: str, expected: str) -> UsageError:
    return UsageError(
        f"line {number} of the memory file: {given}; expected {expected}; "
        "give a file that `kope memory export -o FILE.jsonl` of this kope-tvm wrote"
    )
