# SPDX-License-Identifier: Apache-2.0
"""The seed: experience that ships with kope, learned in real runs, which a new memory starts with.

Its run ids begin with `seed-N/`, N the seed's version that brought them, wherever they are merged.
"""

from __future__ import annotations

import base64
import binascii
import io
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from kope_tvm.errors import StorageError, UsageError
from kope_tvm.memory.database import TABLES, insert
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.portable import load_jsonl, write_jsonl
from kope_tvm.memory.rows import experience_key, measured_secs
from kope_tvm.memory.store import Store

SEED = Path(__file__).with_name("seed.jsonl.xz.b64")
"""What ships; where it is missing, memories start empty."""
_TEXT = ".b64"
"""A seed as text: a patch and a review of sources carry it."""

_RUN_ID = "seed-{version}/{run_id}"
_VERSION = re.compile(r"seed-(\d+)/")
_PATH = re.compile(r"(?:/[\w.+-]+)+/")
_BEST = 6
_BEST_OF_SPACE = 2
_SLOW = 2.0
"""Times the best from which on down the slowest one is a warning."""


def seed_versions(store: Store) -> tuple[int, ...]:
    """The versions of the seed that a memory has taken in, oldest first."""
    run_id = TABLES["decision"].c.run_id
    query = sa.select(run_id).where(run_id.like("seed-%")).distinct()
    with store.database.reading() as connection:
        found = [_VERSION.match(text) for text in connection.execute(query).scalars()]
    return tuple(sorted({int(one[1]) for one in found if one}))


def load_seed(store: Store, path: Path = SEED) -> int:
    """Take in a seed; how many experiences were new.

    Raises UsageError where it is none, StorageError where it cannot be read.
    """
    try:
        data = path.read_bytes()
        packed = base64.b64decode(data) if path.suffix == _TEXT else data
        return load_jsonl(store, io.StringIO(lzma.decompress(packed).decode()))
    except (lzma.LZMAError, binascii.Error, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: no seed: {error}; `kope memory seed --make` writes one"
        ) from error
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}; give a seed to load") from error


def add_to_seed(learned: Store, path: Path) -> int:
    """Add what is worth shipping of a memory to the seed at `path`; how many experiences that were.

    What an older version brought stays as it was.
    """
    with Store.open("sqlite://") as seed:
        if path.exists():
            load_seed(seed, path)
        version = max(seed_versions(seed), default=0) + 1
        _copy_machines(learned, seed)
        num_new = seed.record_many(_stamped(worth_shipping(learned.experiences()), version))
        _replace(seed, path)
    return num_new


def worth_shipping(experiences: Iterable[Experience]) -> list[Experience]:
    """Of each task and machine the best of every space, what was undone of them, and warnings."""
    groups: dict[tuple[str, str], list[Experience]] = {}
    for experience in experiences:
        if not experience.suspicious:
            key = (experience.task_key, experience.machine_key)
            groups.setdefault(key, []).append(experience)
    kept = {experience_key(one): one for group in groups.values() for one in _worthy(group)}
    return sorted(kept.values(), key=lambda one: (one.at, one.round_no, one.order))


def _worthy(group: Sequence[Experience]) -> Iterator[Experience]:
    ranked = sorted((one for one in group if measured_secs(one)), key=_secs)
    best = _best(ranked)
    yield from best
    if ranked and _secs(ranked[-1]) >= _SLOW * _secs(ranked[0]):
        yield ranked[-1]
    states = {one.state for one in best}
    yield from (one for one in group if one.proposer == "rewind" and one.parent in states)
    yield from {one.code: one for one in reversed(group) if one.code}.values()


def _best(ranked: Sequence[Experience]) -> list[Experience]:
    best: list[Experience] = []
    for one in ranked:
        alike = [other for other in best if (other.lane, other.space) == (one.lane, one.space)]
        if len(best) < _BEST and len(alike) < _BEST_OF_SPACE:
            best.append(one)
    return best


def _secs(experience: Experience) -> float:
    return measured_secs(experience) or float("inf")


def _stamped(experiences: Iterable[Experience], version: int) -> Iterator[Experience]:
    """With the seed's run ids, under which they have other keys, and without anybody's folders."""
    keys: dict[str, str] = {}
    for one in experiences:
        stamped = replace(
            one,
            run_id=_RUN_ID.format(version=version, run_id=one.run_id),
            reason=_PATH.sub("", one.reason),
            source=keys.get(one.source, ""),
        )
        keys[experience_key(one)] = experience_key(stamped)
        yield stamped


def _copy_machines(learned: Store, seed: Store) -> None:
    with learned.database.reading() as connection:
        found = [row._asdict() for row in connection.execute(sa.select(TABLES["machine"]))]
    with seed.database.writing() as connection:
        insert(connection, "machine", found)


def _replace(seed: Store, path: Path) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    text = io.StringIO()
    write_jsonl(seed, text)
    data = lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME)
    try:
        part.write_bytes(base64.encodebytes(data) if path.suffix == _TEXT else data)
        part.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}; give a place to write") from error
    finally:
        part.unlink(missing_ok=True)
