# SPDX-License-Identifier: Apache-2.0
"""What a memory must do on every database that it may lie in."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from kope_tvm.memory import Experience, Stats, Store, experience_key
from kope_tvm.memory.database import TABLES
from kope_tvm.memory.repairs import Fix
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Features

NewPlace = Callable[[], str]
"""Makes an empty memory and says where."""

SPEC = TargetSpec(
    "host",
    {"kind": "llvm", "mcpu": "znver5", "num-cores": 2},
    Facts("avx512", vlen_bits=512, num_cores=2, l1_bytes=32768),
)
FIRST = Experience(
    task_key="f00d",
    task_name="main",
    features=Features("softmax", (512,), (1024,), ("float32", "float32"), 2e6, 4e6, 4),
    machine_key=SPEC.key,
    state="s1",
    parent="",
    lane="decisions",
    space="rule:softmax_x86",
    proposal='["trace"]',
    proposer="sketch",
    change="tile 8 -> 16",
    round_no=1,
    order=2,
    accepted=True,
    code="",
    reason="",
    suspicious=False,
    run_secs=(2e-3, 1e-3, 3e-3),
    baseline_secs=4e-3,
    noise=0.5,
    tokens=7,
    cites=("a", "b"),
    seed=42,
    toolchain="tvm 0.27.0.post1",
    simulated=False,
    run_id="run",
    at=1000.0,
)
FAILED = replace(
    FIRST, state="s2", proposal="bad", code="E_BUILD", reason="no", accepted=False, run_secs=()
)
MENDED = replace(
    FIRST,
    state="s3",
    parent="s2",
    proposal="good",
    change="one bracket more",
    order=3,
    repairs="s2",
    repair_turn=1,
    signature="E_BUILD no",
)
CARRIED = replace(
    FIRST,
    machine_key="llvm/k1/rvv/256/8",
    state="s9",
    proposal="wider",
    run_id="another",
    source=experience_key(FIRST),
    relative='{"inner": "2*vlen"}',
)


def nth(number: int) -> Experience:
    return replace(FIRST, state=f"s{number}", proposal=f"p{number}", order=number)


def tables(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """All rows but for local ids, in one order."""
    names = ("task", "machine", "state", "proposal", "decision", "repair", "transfer")
    found = {}
    with store.database.reading() as connection:
        for name in names:
            columns = [column for column in TABLES[name].c if column.name != "id"]
            found[name] = sorted(tuple(row) for row in connection.execute(sa.select(*columns)))
    return found


_WRITER = """
import pickle, sys
from dataclasses import replace
from kope_tvm.memory import Store
first = pickle.loads(bytes.fromhex(sys.argv[2]))
with Store.open(sys.argv[1]) as store:
    for number in range(int(sys.argv[4])):
        store.record(replace(first, run_id=sys.argv[3], order=number, proposal=str(number)))
        print(number, flush=True)
"""


def start_writer(place: str, run_id: str, count: int) -> subprocess.Popen[str]:
    """Start a process that records so many experiences, and says so after each."""
    command = [sys.executable, "-c", _WRITER, place, pickle.dumps(FIRST).hex(), run_id, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class StoreChecks:
    """Inherited by a test class a database."""

    def test_what_was_recorded_is_read_back_in_another_session(self, new_place: NewPlace) -> None:
        place = new_place()
        with Store.open(place) as store:
            assert store.record(FIRST)
            assert store.record(FAILED)
        with Store.open(place) as store:
            assert list(store.experiences()) == [FIRST, FAILED]
            assert store.notice == ""

    def test_a_repair_is_read_back_and_is_an_edge_from_what_failed(
        self, new_place: NewPlace
    ) -> None:
        elsewhere = replace(FAILED, run_id="another")
        with Store.open(new_place()) as store:
            store.record_many([FAILED, elsewhere, FIRST])
            store.record(MENDED)
            assert list(store.experiences())[-1] == MENDED
            edge = (experience_key(FAILED), experience_key(MENDED), "E_BUILD no", 1)
            assert tables(store)["repair"] == [edge]
            assert store.stats().repairs == 1

    @pytest.mark.parametrize("is_source_first", [True, False])
    def test_a_transfer_is_an_edge_from_what_was_carried_over_whichever_comes_first(
        self, new_place: NewPlace, is_source_first: bool
    ) -> None:
        pair = [FIRST, CARRIED] if is_source_first else [CARRIED, FIRST]
        with Store.open(new_place()) as store:
            for experience in pair:
                store.record(experience)
            assert list(store.experiences()) == pair
            edge = (experience_key(FIRST), experience_key(CARRIED), '{"inner": "2*vlen"}')
            assert tables(store)["transfer"] == [edge]
            assert store.stats().transfers == 1

    def test_a_repair_that_comes_before_what_failed_is_an_edge(self, new_place: NewPlace) -> None:
        with Store.open(new_place()) as store:
            store.record(MENDED)
            assert store.stats().repairs == 0
            store.record(FAILED)
            assert store.stats().repairs == 1

    def test_fixes_are_those_that_worked_and_one_that_did_not(self, new_place: NewPlace) -> None:
        again = replace(FAILED, state="s4", code="E_BUILD", repairs="s2", repair_turn=1)
        again = replace(again, change="one bracket less", signature="E_BUILD no")
        other = replace(FAILED, state="s5", reason="maybe")
        other_mended = replace(MENDED, state="s6", repairs="s5", signature="E_BUILD maybe", order=9)
        other_mended = replace(other_mended, change="another name", repair_turn=2)
        with Store.open(new_place()) as store:
            store.record_many([FAILED, again, MENDED, other, other_mended])
            good = Fix("E_BUILD", "no", "one bracket more", worked=True, turns=1)
            like = Fix("E_BUILD", "maybe", "another name", worked=True, turns=2)
            bad = Fix("E_BUILD", "no", "one bracket less", worked=False, turns=1)
            assert store.fixes("E_BUILD no", "softmax") == (good, like, bad)
            assert store.fixes("E_BUILD no", "softmax", limit=2) == (good, bad)
            assert store.fixes("E_BUILD no", "softmax", limit=1) == (good,)
            assert store.fixes("E_BUILD maybe", "softmax") == (like, good)
            assert store.fixes("E_NUMERICS C", "softmax") == ()

    def test_recording_again_changes_nothing(self, new_place: NewPlace) -> None:
        with Store.open(new_place()) as store:
            assert store.record_many([FIRST, FIRST, FAILED]) == 2
            assert not store.record(FIRST)
            assert len(list(store.experiences())) == 2

    def test_experiences_are_selected_by_task_and_machine(self, new_place: NewPlace) -> None:
        elsewhere = replace(FIRST, machine_key="llvm/k1/rvv/256/8")
        with Store.open(new_place()) as store:
            store.record_many([FIRST, elsewhere, replace(FIRST, task_key="beef")])
            assert list(store.experiences(elsewhere.machine_key)) == [elsewhere]
            assert len(list(store.experiences(task_key="f00d"))) == 2
            assert list(store.experiences("llvm/k1/rvv/256/8", "beef")) == []

    def test_more_than_one_page_is_read_completely_and_in_order(self, new_place: NewPlace) -> None:
        with Store.open(new_place()) as store:
            assert store.record_many(nth(i) for i in range(1203)) == 1203
            assert [found.order for found in store.experiences()] == list(range(1203))

    def test_stats_count_nodes_and_edges(self, new_place: NewPlace) -> None:
        with Store.open(new_place()) as store:
            store.record_many([FIRST, FAILED, replace(FIRST, run_id="another")])
            assert store.stats() == Stats(
                tasks=1,
                machines=1,
                states=3,
                decisions=3,
                plans=0,
                rewrites=0,
                failures=1,
                suspicious=0,
                repairs=0,
                transfers=0,
                lessons=0,
                runs=2,
            )

    def test_text_no_database_can_hold_is_cleaned_and_keeps_its_key(
        self, new_place: NewPlace
    ) -> None:
        odd = replace(FIRST, reason="a\0b\ud800", noise=float("nan"), baseline_secs=0)
        with Store.open(new_place()) as store:
            assert store.record(odd)
            assert not store.record(odd)
            (found,) = store.experiences()
        assert (found.reason, found.noise, found.baseline_secs) == ("ab?", 0.0, 0.0)
        assert experience_key(found) == experience_key(odd)

    def test_facts_of_a_machine_replace_what_its_key_told(self, new_place: NewPlace) -> None:
        with Store.open(new_place()) as store:
            store.record(FIRST)
            told = store.machines()[SPEC.key]
            assert (told.kind, told.facts.isa, told.facts.vlen_bits) == ("llvm", "avx512", 512)
            assert told.facts.l1_bytes == 0
            store.note_machine(SPEC)
            store.record(replace(FIRST, order=9))
            assert store.machines()[SPEC.key].facts == SPEC.facts

    def test_merge_is_idempotent_commutative_and_lossless(self, new_place: NewPlace) -> None:
        rng = random.Random(3)
        newer = replace(FIRST.features, num_blocks=5)
        some = [nth(i) for i in range(40)] + [FAILED, MENDED, CARRIED]
        some += [replace(nth(i), features=newer, at=2000.0) for i in range(40, 45)]
        for _ in range(5):
            halves = [[e for e in some if rng.random() < 0.6] for _ in "ab"]
            left, right = Store.open(new_place()), Store.open(new_place())
            for store, half in ((left, halves[0]), (right, halves[1])):
                rng.shuffle(half)
                store.record_many(half)
            assert left.merge(right) == len(set(halves[1]) - set(halves[0]))
            right.merge(left)
            assert tables(left) == tables(right)
            assert {experience_key(e) for e in left.experiences()} == {
                experience_key(e) for e in halves[0] + halves[1]
            }
            assert left.merge(right) == left.merge(left) == 0
            assert tables(left) == tables(right)

    def test_eight_processes_writing_one_new_file_lose_nothing(self, new_place: NewPlace) -> None:
        place = new_place()
        writers = [start_writer(place, f"run{number}", 25) for number in range(8)]
        for writer in writers:
            writer.communicate(timeout=60)
            assert writer.returncode == 0
        with Store.open(place) as store:
            found = {(one.run_id, one.order) for one in store.experiences()}
            assert found == {(f"run{run}", order) for run in range(8) for order in range(25)}
            assert store.stats().decisions == 200

    def test_a_killed_writer_leaves_everything_it_acknowledged(self, new_place: NewPlace) -> None:
        place = new_place()
        writer = start_writer(place, "run", 100_000)
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        acknowledged = 20 + len(writer.stdout.read().splitlines())
        writer.wait(timeout=10)
        writer.stdout.close()
        with Store.open(place) as store:
            assert store.notice == ""
            kept = [one.order for one in store.experiences()]
        assert kept == list(range(len(kept)))
        assert acknowledged <= len(kept) <= acknowledged + 1
