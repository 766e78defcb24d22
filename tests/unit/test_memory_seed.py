# SPDX-License-Identifier: Apache-2.0
"""The seed: what of a memory is worth shipping, how it is stamped, and when it is loaded."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from kope_tvm.errors import UsageError
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.rows import experience_key
from kope_tvm.memory.seed import add_to_seed, load_seed, seed_versions, worth_shipping
from kope_tvm.memory.store import Store
from kope_tvm.seeded import open_seeded
from kope_tvm.target import Facts, TargetSpec
from store_checks import FIRST

_BOX = TargetSpec("box", {"kind": "llvm", "mcpu": "box"}, Facts("avx2", 256, 16, 4, 32768, 262144))


def _learned(folder: Path, *experiences: Experience, name: str = "learned") -> Store:
    store = Store.open(folder / f"{name}.sqlite")
    store.note_machine(_BOX, at=1.0)
    store.record_many(experiences)
    return store


def _states(experiences: list[Experience]) -> set[str]:
    return {one.state for one in experiences}


def test_the_best_two_of_each_space_ship_and_the_slowest_as_a_warning() -> None:
    times = {"a": 1e-3, "b": 2e-3, "c": 3e-3, "d": 9e-3}
    given = [
        replace(FIRST, state=name, space="sketch", run_secs=(secs,)) for name, secs in times.items()
    ]
    other = replace(FIRST, state="e", space="rule:x", run_secs=(4e-3,))
    assert _states(worth_shipping([*given, other])) == {"a", "b", "d", "e"}


def test_a_decision_that_was_undone_ships_with_what_it_was_undone_of() -> None:
    best = replace(FIRST, state="best", run_secs=(1e-3,), space="sketch")
    second = replace(FIRST, state="second", run_secs=(1.1e-3,), space="sketch")
    third = replace(FIRST, state="third", run_secs=(1.2e-3,), space="sketch")
    of_best = replace(
        FIRST, state="u", parent="best", proposer="rewind", run_secs=(1.3e-3,), space="sketch"
    )
    of_third = replace(of_best, state="v", parent="third")
    shipped = worth_shipping([best, second, third, of_best, of_third])
    assert _states(shipped) == {"best", "second", "u"}


def test_a_failure_of_each_code_ships_and_no_cheat() -> None:
    fail = {"run_secs": (), "accepted": False}
    given = [
        replace(FIRST, state="f", code="E_NUMERICS", **fail),
        replace(FIRST, state="g", code="E_NUMERICS", **fail),
        replace(FIRST, state="h", code="E_BUILD", **fail),
        replace(FIRST, state="i", code="E_BOUNDS", suspicious=True, **fail),
    ]
    assert _states(worth_shipping(given)) == {"f", "h"}


@pytest.mark.parametrize("name", ["seed.jsonl.xz", "seed.jsonl.xz.b64"])
def test_a_seed_says_its_version_and_the_next_one_keeps_what_it_brought(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    first, second = (
        replace(FIRST, state="a", at=1.0),
        replace(FIRST, state="b", at=2.0, task_key="t2"),
    )
    with _learned(tmp_path, first) as learned:
        assert add_to_seed(learned, path) == 1
    with _learned(tmp_path, second, name="more") as learned:
        assert add_to_seed(learned, path) == 1
    with Store.open(tmp_path / "new.sqlite") as store:
        assert load_seed(store, path) == 2
        assert load_seed(store, path) == 0
        assert seed_versions(store) == (1, 2)
        runs = {one.state: one.run_id for one in store.experiences()}
        assert runs == {"a": f"seed-1/{first.run_id}", "b": f"seed-2/{second.run_id}"}
        assert store.machines()[_BOX.key].facts == _BOX.facts


def test_the_same_runs_make_the_same_bytes(tmp_path: Path) -> None:
    with _learned(
        tmp_path, replace(FIRST, state="a"), replace(FIRST, state="b", task_key="t2")
    ) as learned:
        for name in ("x", "y"):
            add_to_seed(learned, tmp_path / name)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_what_was_carried_over_still_knows_from_what_and_folders_stay_at_home(
    tmp_path: Path,
) -> None:
    path = tmp_path / "seed"
    source = replace(FIRST, state="a", at=1.0)
    carried = replace(
        FIRST,
        state="b",
        at=2.0,
        task_key="t2",
        source=experience_key(source),
        relative="[2 vlen]",
        code="E_BUILD",
        run_secs=(),
        reason="no such file: /home/someone/lib/libx.so",
    )
    with _learned(tmp_path, source, carried) as learned:
        add_to_seed(learned, path)
    with Store.open("sqlite://") as store:
        load_seed(store, path)
        found = {one.state: one for one in store.experiences()}
    assert found["b"].source == experience_key(found["a"])
    assert found["b"].reason == "no such file: libx.so"


def test_a_seed_as_text_is_text(tmp_path: Path) -> None:
    path = tmp_path / "seed.jsonl.xz.b64"
    with _learned(tmp_path, FIRST) as learned:
        add_to_seed(learned, path)
    assert max(map(len, path.read_text(encoding="ascii").splitlines())) <= 76
    path.write_text("abc", encoding="ascii")
    with Store.open("sqlite://") as store, pytest.raises(UsageError, match="no seed"):
        load_seed(store, path)


def test_a_file_that_is_no_seed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seed"
    path.write_text("no xz")
    with Store.open("sqlite://") as store:
        with pytest.raises(UsageError, match="no seed"):
            load_seed(store, path)
        path.write_bytes(lzma.compress(b'{"kope_memory":{"version":99}}\n'))
        with pytest.raises(UsageError, match="version 99"):
            load_seed(store, path)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A seed as it would ship, and a home without a memory."""
    path = tmp_path / "seed.jsonl.xz"
    with _learned(tmp_path, FIRST) as learned:
        add_to_seed(learned, path)
    monkeypatch.setenv("KOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KOPE_SEED", "on")
    monkeypatch.chdir(tmp_path)
    return path


def _num_held(shipped: Path, url: str | None = None) -> int:
    with open_seeded(url, shipped) as memory:
        return memory.stats().decisions


def test_the_users_own_new_memory_starts_with_the_seed(shipped: Path, tmp_path: Path) -> None:
    assert _num_held(shipped, str(tmp_path / "given.sqlite")) == 0
    assert _num_held(shipped) == 1


def test_a_memory_that_was_there_is_left_alone(shipped: Path, tmp_path: Path) -> None:
    Store.open(tmp_path / "home" / "memory.sqlite").close()
    assert _num_held(shipped) == 0


def test_who_does_not_want_it_says_so(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOPE_SEED", "off")
    assert _num_held(shipped) == 0
    (tmp_path / "home" / "memory.sqlite").unlink()
    monkeypatch.delenv("KOPE_SEED")
    (tmp_path / "kope.toml").write_text("seed = false\n")
    assert _num_held(shipped) == 0


@pytest.mark.parametrize(("told", "toml"), [("maybe", ""), ("", 'seed = "off"\n')])
def test_a_wrong_switch_is_named(
    told: str, toml: str, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOPE_SEED", told)
    (tmp_path / "kope.toml").write_text(toml)
    with pytest.raises(UsageError, match=r"(?i)seed.*expected"):
        _num_held(shipped)


def test_a_damaged_seed_leaves_an_empty_memory(shipped: Path) -> None:
    shipped.write_bytes(b"\xfd7zXZ")
    assert _num_held(shipped) == 0
