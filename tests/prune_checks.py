# SPDX-License-Identifier: Apache-2.0
"""What forgetting must spare, on every database that a memory may lie in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import store_checks
from kope_tvm.memory import Experience, Memory, experience_key
from kope_tvm.memory.faults import faults
from kope_tvm.task import Task

FIRST: Experience = store_checks.FIRST
FAILED: Experience = store_checks.FAILED
NewPlace = Callable[[], str]

DAY_SECS = 86400.0
NOW = 1000.0 * DAY_SECS
CHEAT = replace(
    FIRST,
    state="cheat",
    proposal="return at once",
    run_secs=(1e-9,),
    code="E_IMPOSSIBLE",
    accepted=False,
    suspicious=True,
    at=NOW - 900 * DAY_SECS,
)


def trial(number: int, msecs: float, age_days: float = 1.0, **others: object) -> Experience:
    """A trial of its own proposal."""
    changed = replace(
        FIRST,
        state=f"s{number}",
        proposal=f"p{number}",
        order=number,
        run_secs=(msecs * 1e-3,),
        at=NOW - age_days * DAY_SECS,
    )
    return replace(changed, **others)  # type: ignore[arg-type]


def crowd(count: int, first: int = 100) -> list[Experience]:
    """Trials that are each a little slower than the one before, none twice as slow."""
    return [trial(first + number, 1.1 + 0.5 * number / count) for number in range(count)]


def kept_of(memory: Memory) -> set[Experience]:
    return set(memory.store.experiences())


class PruneChecks:
    """Inherited by a test class a database."""

    def test_what_is_slowest_goes_and_the_best_few_of_every_place_stay(
        self, new_place: NewPlace
    ) -> None:
        best, others = trial(0, 1.0), crowd(60)
        lone = trial(1, 7.0, machine_key="llvm/k1/rvv/256/8")
        with Memory.open(new_place()) as memory:
            memory.record_many([*others, best, lone])
            pruned = memory.prune(keep=0)
            assert pruned.kept == {"best": 2, "diversity": 31}
            assert pruned.dropped == {"slower": 29}
            assert kept_of(memory) == {best, lone, *others[:31]}
            assert [*faults(memory.store.database)] == []
            assert memory.prune(keep=0).num_dropped == 0

    def test_as_many_stay_as_are_wanted(self, new_place: NewPlace) -> None:
        others = crowd(60)
        with Memory.open(new_place()) as memory:
            memory.record_many(others)
            assert memory.prune(keep=60, dry_run=True).num_dropped == 0
            assert memory.prune(keep=50, dry_run=True).kept == {
                "best": 1,
                "diversity": 31,
                "value": 18,
            }
            assert memory.stats().decisions == 60
            assert memory.prune(keep=50).num_kept == 50
            assert kept_of(memory) == set(others[:50])

    def test_what_is_young_stays_and_of_equals_the_old_goes(self, new_place: NewPlace) -> None:
        import time

        old = [replace(one, at=time.time() - 9 * DAY_SECS) for one in crowd(50)]
        young = [replace(one, at=time.time() - DAY_SECS) for one in crowd(40, first=200)]
        with Memory.open(new_place()) as memory:
            memory.record_many([*old, *young])
            pruned = memory.prune(0, older_than_secs=5 * DAY_SECS)
            assert kept_of(memory) >= set(young)
            assert pruned.kept["young"] >= 8
            assert pruned.dropped["slower"] > 20

    def test_warnings_and_the_best_of_each_space_stay(self, new_place: NewPlace) -> None:
        crash = [trial(n, 1.0, code="E_CRASH", run_secs=(), reason=str(n)) for n in (2, 3)]
        build = trial(4, 1.0, code="E_BUILD", run_secs=())
        sketch, slow = trial(5, 1.9, space="sketch"), trial(6, 50.0)
        with Memory.open(new_place()) as memory:
            memory.record_many([*crash, build, sketch, slow, *crowd(60)])
            pruned = memory.prune(0)
            assert pruned.kept == {"best": 2, "warning": 3, "diversity": 27}
            assert pruned.dropped == {"failed": 1, "slower": 32}
            assert kept_of(memory) >= {crash[1], build, sketch, slow}

    def test_a_kept_edge_keeps_what_it_came_from(self, new_place: NewPlace) -> None:
        root = trial(10, 1.8)
        middle = trial(11, 1.8, parent="s10")
        best = trial(12, 1.0, parent="s11")
        failed = [trial(n, 1.0, code="E_BUILD", run_secs=(), run_id="r") for n in (13, 14)]
        mended = trial(15, 1.5, repairs="s13", run_id="r", space="mended")
        source = trial(16, 1.85)
        carried = trial(
            17, 3.0, machine_key="llvm/k1/rvv/256/8", source=experience_key(source), relative="{}"
        )
        chain = {root, middle, failed[0], source}
        with Memory.open(new_place()) as memory:
            memory.record_many([*crowd(60), root, middle, best, *failed, mended, source, carried])
            pruned = memory.prune(0)
            assert pruned.kept["chain"] == 4
            assert kept_of(memory) >= {best, mended, carried, failed[1], *chain}
            assert (memory.stats().repairs, memory.stats().transfers) == (1, 1)
            assert [one.state for one in memory.graph("f00d").decision_path("f00d", "s12")] == [
                "s10", "s11", "s12",
            ]  # fmt: skip

    def test_repeats_go_before_what_was_tried_once(self, new_place: NewPlace) -> None:
        others = crowd(40)
        repeats = [replace(others[1], seed=seed, run_secs=(1.105e-3,)) for seed in range(20)]
        with Memory.open(new_place()) as memory:
            memory.record_many([*others, *repeats])
            assert memory.prune(40).dropped == {"repeated": 20}
            assert len({one.proposal for one in kept_of(memory)}) == 40

    def test_cheats_stay_as_rules_through_prune_and_merge_and_are_never_an_example(
        self, new_place: NewPlace
    ) -> None:
        some = crowd(60)
        task = Task("main", FIRST.task_key, "", store_checks.SPEC, FIRST.features)
        with Memory.open(new_place()) as memory, Memory.open(new_place()) as other:
            memory.record_many([CHEAT, *some])
            pruned = memory.prune(0)
            assert pruned.kept["rule"] == 1
            other.merge(memory)
            for each in (memory, other):
                assert CHEAT in kept_of(each)
                assert each.stats().suspicious == 1
                recalled = [one.experience for one in each.recall(task, limit=100)]
                assert len(recalled) > 8
                assert CHEAT not in recalled
                assert not any("cheat" in one.change for one in each.transitions(task))

    def test_lessons_outlive_what_is_forgotten(self, new_place: NewPlace) -> None:
        sketches = [trial(300 + n, 1.7 + n / 100, space="sketch") for n in range(20)]
        with Memory.open(new_place()) as memory:
            memory.record_many([*crowd(60), *sketches])
            before = memory.learn_lessons()
            assert before
            memory.prune(0)
            assert memory.store.lessons() == before

    def test_a_merge_brings_back_what_was_forgotten(self, new_place: NewPlace) -> None:
        some = crowd(60)
        with Memory.open(new_place()) as memory, Memory.open(new_place()) as other:
            for each in (memory, other):
                each.record_many(some)
            num_dropped = memory.prune(0).num_dropped
            assert num_dropped == 28
            assert memory.merge(other) == num_dropped
            assert kept_of(memory) == set(some)

    def test_what_was_forgotten_can_be_recorded_again_by_who_had_it_open(
        self, new_place: NewPlace
    ) -> None:
        place, some = new_place(), crowd(60)
        with Memory.open(place) as memory, Memory.open(place) as other:
            memory.record_many(some)
            other.prune(0)
            assert memory.record_many(some) == 28
            assert [*faults(memory.store.database)] == []

    def test_forgetting_while_others_write_breaks_nothing(self, new_place: NewPlace) -> None:
        place = new_place()
        with Memory.open(place) as memory:
            memory.record_many(crowd(60))
            writers = [store_checks.start_writer(place, f"run{n}", 60) for n in range(2)]
            while any(writer.poll() is None for writer in writers):
                memory.prune(0)
            for writer in writers:
                writer.communicate()
                assert writer.returncode == 0
            memory.prune(0)
            assert [*faults(memory.store.database)] == []
            assert memory.stats().decisions == 32
