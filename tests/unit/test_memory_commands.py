# SPDX-License-Identifier: Apache-2.0
"""`kope memory merge` takes in another memory, and nothing that is none."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from kope_tvm.cli import main
from kope_tvm.ledger import Ledger
from kope_tvm.memory import Memory, Store
from kope_tvm.memory.work_dirs import known
from store_checks import CARRIED, FAILED, FIRST, MENDED, SPEC


def merge(source: Path, memory: Path, *options: str) -> Result:
    return CliRunner().invoke(
        main, ["memory", "merge", str(source), "--memory", str(memory), *options]
    )


def test_merging_twice_takes_in_what_is_new_once(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.sqlite", tmp_path / "theirs.sqlite"
    for path, experiences in ((ours, [FIRST, FAILED]), (theirs, [FAILED, MENDED, CARRIED])):
        with Store.open(path) as store:
            store.record_many(experiences)
    result = merge(theirs, ours)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{ours}: 2 of 3 experiences of {theirs} are new\n"
    told = json.loads(merge(theirs, ours, "--json").stdout)
    assert told == {"place": str(ours), "source": str(theirs), "experiences": 3, "new": 0}
    assert merge(ours, ours).stdout == f"{ours}: 0 of 4 experiences of {ours} are new\n"
    with Store.open(ours) as store:
        assert set(store.experiences()) == {FIRST, FAILED, MENDED, CARRIED}
        assert (store.stats().repairs, store.stats().transfers) == (1, 1)


def test_a_source_that_is_missing_or_damaged_is_a_wrong_call_and_left_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.sqlite", tmp_path / "theirs.sqlite"
    result = merge(theirs, ours)
    assert (result.exit_code, ours.exists(), theirs.exists()) == (2, False, False)
    assert "no such file; expected a memory to merge from" in result.stderr
    theirs.write_bytes(b"no memory at all")
    result = merge(theirs, ours)
    assert result.exit_code == 2
    assert "is damaged (file is not a database); `kope memory verify --rebuild" in result.stderr
    assert theirs.read_bytes() == b"no memory at all"


def test_a_memory_knows_the_work_dirs_that_feed_it(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        for name in ("one", "two", "one"):
            Ledger(tmp_path / name, SPEC, memory).close()
    assert known(tmp_path / "m.sqlite") == (tmp_path / "one", tmp_path / "two")
