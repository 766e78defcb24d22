# SPDX-License-Identifier: Apache-2.0
"""A damaged memory is told from a sound one, kept, and made good of what is left and work_dirs."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kope_tvm.cli import main
from kope_tvm.memory import Memory, Store
from kope_tvm.memory.faults import faults
from kope_tvm.memory.location import damage, left_aside
from kope_tvm.memory.salvage import experiences_in
from kope_tvm.memory.work_dirs import known, note
from store_checks import CARRIED, FAILED, FIRST, MENDED, SPEC, nth

FED = [nth(number) for number in range(100)]
"""What a work_dir knows of."""
ALONE = replace(FIRST, run_id="elsewhere")
"""What only the memory does."""


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal, and a memory that holds more."""
    folder = tmp_path_factory.mktemp("memories")
    with Store.open(folder / "work" / "experience.sqlite") as journal:
        journal.record_many(FED)
    with Memory.open(folder / "m.sqlite") as memory:
        memory.record_many([ALONE, *FED])
    return folder


@pytest.fixture
def path(tmp_path: Path, memories: Path) -> Path:
    """A memory fed by one work_dir that is there and one that is gone, and by something else."""
    shutil.copytree(memories, tmp_path, dirs_exist_ok=True)
    with Memory.open(tmp_path / "m.sqlite") as memory:
        for name in ("work", "gone", "work"):
            memory.note_work_dir(tmp_path / name)
    return tmp_path / "m.sqlite"


def verify(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["memory", "verify", "--memory", str(path), *options])


def garbage(data: bytes) -> bytes:
    return b"\x55" * len(data)


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(_: bytes) -> bytes:
    return b""


def overwritten(data: bytes) -> bytes:
    """All but the page that says what is where."""
    return data[:4096] + b"\x55" * (len(data) - 4096)


def flipped(data: bytes) -> bytes:
    """Some bytes in the middle, of every page one."""
    changed = bytearray(data)
    for place in range(len(data) // 2, len(data), 4096):
        changed[place + 100] ^= 0xFF
    return bytes(changed)


def kept(path: Path) -> list[Path]:
    """The files that were set aside; a log may lie beside."""
    found = path.parent.glob(f"{path.name}.damaged-*")
    return [each for each in found if not each.name.endswith(("-wal", "-shm"))]


@pytest.mark.parametrize("harm", [garbage, truncated, empty, overwritten, flipped])
def test_a_damaged_file_is_found_and_made_good(path: Path, harm: Callable[[bytes], bytes]) -> None:
    path.write_bytes(harm(path.read_bytes()))
    result = verify(path)
    assert result.exit_code == 1
    assert "`kope memory verify --rebuild`" in result.output
    assert kept(path) == []
    result = verify(path, "--rebuild")
    assert result.exit_code == 0, result.output
    assert "1 of 2 work_dirs; no journal in" in result.output
    assert f"no journal in {path.parent / 'gone'}" in result.output
    assert len(kept(path)) == 1
    with Store.open(path) as store:
        assert store.notice == ""
        assert set(store.experiences()) >= set(FED)
    assert verify(path).exit_code == 0


@pytest.mark.parametrize("harm", [garbage, truncated, empty, overwritten])
def test_what_cannot_be_opened_is_made_good_by_opening_it(
    path: Path, harm: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(harm(path.read_bytes()))
    with Store.open(path) as store:
        assert "was damaged" in store.notice
        assert "from 1 of 2 work_dirs" in store.notice
        assert set(store.experiences()) >= set(FED)


def test_one_altered_edge_is_named_and_the_others_are_read_out_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with Store.open(path) as store:
        store.record_many([FIRST, FAILED, MENDED, CARRIED])
        store.note_machine(SPEC)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE decision SET run_secs = '[1e-9]' WHERE state = 's1'")
    (fault,) = json.loads(verify(path, "--json").stdout)["faults"]
    assert fault["where"] == "decision efa7c626d8ab933979dc1414b97397b1"
    assert fault["what"] == "its content is not what its key names"
    result = verify(path, "--rebuild")
    assert "of which 3 experiences were read; a new one was started" in result.output
    with Store.open(path) as store:
        assert list(store.experiences()) == [FAILED, MENDED, CARRIED]
        assert store.machines()[SPEC.key].facts == SPEC.facts
        assert store.stats().repairs == 1


@pytest.mark.parametrize(
    ("statement", "where", "what"),
    [
        ("UPDATE proposal SET text = text || 'x' WHERE text = 'bad'", "decision", "another text"),
        ("UPDATE decision SET at = 'never' WHERE state = 's2'", "decision", "cannot be read"),
        ("UPDATE decision SET secs = 7 WHERE state = 's1'", "decision", "not what its key names"),
        ("DELETE FROM state WHERE key = 's9'", "state", "the states of 1 decisions are miss"),
        ("DELETE FROM repair", "repair", "1 edges are missing, 0 follow from nothing"),
        ("UPDATE transfer SET relative = ''", "transfer", "1 edges are missing, 1 follow from"),
        ("UPDATE task SET flops = 1", "task f00d", "its columns contradict each other"),
        ("UPDATE machine SET facts = '{'", "machine llvm", "its columns contradict each other"),
        ("DELETE FROM proposal WHERE text = 'bad'", "decision ", "refers to a proposal that is"),
    ],
)
def test_everything_that_can_be_altered_is_told(
    tmp_path: Path, statement: str, where: str, what: str
) -> None:
    path = tmp_path / "m.sqlite"
    with Store.open(path) as store:
        store.record_many([FIRST, FAILED, MENDED, CARRIED])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with Store.open(path) as store:
        found = [*faults(store.database)]
    assert found
    assert found[0].where.startswith(where)
    assert what in found[0].what


def test_a_sound_memory_has_no_faults(path: Path) -> None:
    result = verify(path)
    assert (result.exit_code, result.stdout) == (0, f"{path}: 101 decisions, nothing wrong\n")
    assert verify(path, "--rebuild").stdout == result.stdout
    assert damage(path) == ""


def test_what_is_left_of_a_file_that_was_cut_off_is_read(path: Path) -> None:
    with Store.open(path) as store:
        store.record_many(replace(ALONE, proposal="x" * 500, order=n) for n in range(1000))
        (count,) = {store.stats().decisions}
    (path.parent / "work" / "experience.sqlite").unlink()
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])
    with Store.open(path) as store:
        assert "no journal in" in store.notice
        assert count // 3 < store.stats().decisions < count
        assert [*faults(store.database)] == []


def test_a_memory_that_is_gone_is_made_anew_when_asked(path: Path) -> None:
    path.unlink()
    result = verify(path)
    assert result.exit_code == 2
    assert "makes it anew of the 2 work_dirs that fed it" in result.stderr
    assert verify(path, "--rebuild").exit_code == 0
    with Store.open(path) as store:
        assert list(store.experiences()) == FED


def test_no_memory_at_all_is_a_wrong_call(tmp_path: Path) -> None:
    for options in ((), ("--rebuild",)):
        result = verify(tmp_path / "m.sqlite", *options)
        assert result.exit_code == 2
        assert "no such file; `kope tune` makes one\n" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_kill_between_setting_aside_and_making_good_is_made_up_for(path: Path) -> None:
    aside = path.with_name("m.sqlite.damaged-1")
    path.rename(aside)
    left_aside(path).write_text("m.sqlite.damaged-1\twas hit\nm.sqlite.damaged-2\tagain\n")
    with Store.open(path) as store:
        assert set(store.experiences()) == {ALONE, *FED}
        assert "was hit; kept as m.sqlite.damaged-1, of which 101 experiences were read" in (
            store.notice
        )
    assert not left_aside(path).exists()


def test_a_file_in_use_is_read_with_its_log_and_left_as_it_is(path: Path) -> None:
    with Store.open(path) as store:
        store.record(MENDED)
        before = path.read_bytes()
        assert list(experiences_in(path)) == [ALONE, *FED, MENDED]
        assert path.read_bytes() == before


def test_work_dirs_are_listed_once_each_whatever_their_names(tmp_path: Path) -> None:
    memory = tmp_path / "m.sqlite"
    folders = [tmp_path / "a b", tmp_path / "ü", tmp_path / "a b"]
    for folder in folders:
        note(memory, folder)
    note(memory, tmp_path / "two\nlines")
    assert known(memory) == (tmp_path / "a b", tmp_path / "ü")
    with (tmp_path / "m.sqlite.work_dirs").open("ab") as file:
        file.write(b"/torn")
    note(memory, tmp_path / "c")
    assert known(memory)[2:] == (Path("/torn"), tmp_path / "c")


@pytest.mark.parametrize("old", [b"baseline_secs", b"TABLE decision", b"proposal_key"])
def test_a_file_whose_own_description_is_hit_is_made_good(path: Path, old: bytes) -> None:
    data = path.read_bytes()
    place = data.index(old)
    path.write_bytes(data[:place] + b"\xdf" + data[place + 1 :])
    assert verify(path).exit_code == 1
    assert verify(path, "--rebuild").exit_code == 0
    with Store.open(path) as store:
        assert set(store.experiences()) >= set(FED)
