# SPDX-License-Identifier: Apache-2.0
"""What a merge must be, of whatever memories: idempotent, commutative, associative, lossless."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

import store_checks
from kope_tvm.memory import Experience, Memory, Store, experience_key
from kope_tvm.memory.portable import load_jsonl, write_jsonl
from kope_tvm.target import Facts, TargetSpec

FIRST: Experience = store_checks.FIRST
NewPlace = Callable[[], str]
_Item = TypeVar("_Item")

_STATES = ("s1", "s2", "s3", "s4")
_FEATURES = (
    FIRST.features,
    replace(FIRST.features, num_blocks=5),
    replace(FIRST.features, op_class="matmul", reduce_extents=(7, -1)),
)
_SPECS = (
    TargetSpec("host", {"kind": "llvm", "mcpu": "znver5"}, Facts("avx512", 512, num_cores=2)),
    TargetSpec("other", {"kind": "llvm", "mcpu": "znver5"}, Facts("avx512", 512, num_cores=2)),
    TargetSpec("k1", {"kind": "llvm", "mcpu": "k1"}, Facts("rvv", 256, l1_bytes=32768)),
)


@dataclass(frozen=True)
class Part:
    """What one memory was given."""

    experiences: tuple[Experience, ...]
    machines: tuple[tuple[TargetSpec, float], ...]
    """Noted, and when."""


def _any_of(*items: _Item) -> st.SearchStrategy[_Item]:
    return st.sampled_from(items)


def experiences() -> st.SearchStrategy[Experience]:
    """Few tasks, machines, states and times, so that memories overlap in every way."""
    return st.builds(
        replace,
        st.just(FIRST),
        task_key=_any_of("f00d", "beef"),
        task_name=_any_of("main", "fused"),
        features=_any_of(*_FEATURES),
        machine_key=_any_of(*(spec.key for spec in _SPECS), "cuda/sm_90/cuda/0/1"),
        state=_any_of(*_STATES),
        parent=_any_of("", *_STATES),
        lane=_any_of("decisions", "plan", "rewrite"),
        space=_any_of("", "sketch", "rule:softmax_x86"),
        proposal=_any_of("p1", "p2") | st.text(max_size=5),
        code=_any_of("", "", "E_BUILD"),
        reason=st.text(st.characters(), max_size=5),
        suspicious=_any_of(False, False, True),
        run_secs=_any_of((), (1e-3,), (2e-3, 1e-3, 3e-3)),
        baseline_secs=_any_of(0.0, 4e-3),
        cites=_any_of((), ("a", "b")),
        simulated=_any_of(False, False, True),
        run_id=_any_of("run", "another"),
        at=_any_of(1.0, 2.0, 3.0),
        repairs=_any_of("", *_STATES),
        relative=_any_of("", '{"inner": "2*vlen"}'),
    )


@st.composite
def parts(draw: st.DrawFn, count: int = 3) -> tuple[Part, ...]:
    """What some memories were given: experiences of one lot, each in any of them."""
    lot = draw(st.lists(experiences(), min_size=1, max_size=8))
    sources = ["", *(experience_key(one) for one in lot)]
    lot += [replace(one, source=draw(_any_of(*sources)), order=9) for one in lot[:4]]
    machines = st.tuples(_any_of(*_SPECS), _any_of(1.0, 2.0))
    drawn = [
        Part(
            tuple(draw(st.lists(_any_of(*lot), max_size=12))),
            tuple(draw(st.lists(machines, max_size=2))),
        )
        for _ in range(count)
    ]
    return tuple(drawn)


def content(store: Store) -> str:
    """All that a memory holds, in one order, with the lessons that follow from it."""
    Memory(store).learn_lessons()
    file = io.StringIO()
    write_jsonl(store, file)
    return file.getvalue()


class Merges:
    """Makes memories of parts, in places of one or of several kinds in turn."""

    def __init__(self, new_places: tuple[NewPlace, ...], opened: ExitStack) -> None:
        self._new_places = new_places
        self._opened = opened
        self._number = 0

    def of(self, *merged: Part) -> Store:
        """A new memory, given all parts directly."""
        new_place = self._new_places[self._number % len(self._new_places)]
        self._number += 1
        store = self._opened.enter_context(Store.open(new_place()))
        for part in merged:
            store.record_many(part.experiences)
            for spec, at in part.machines:
                store.note_machine(spec, at)
        return store

    def merged(self, *others: Store) -> Store:
        """A new memory with others merged into it one after the other."""
        store = self.of()
        for other in others:
            store.merge(other)
        return store

    def loaded(self, *texts: str) -> Store:
        """A new memory from exports."""
        store = self.of()
        for text in texts:
            load_jsonl(store, io.StringIO(text))
        return store


@contextmanager
def merges(*new_places: NewPlace) -> Iterator[Merges]:
    """Closes what it made."""
    with ExitStack() as opened:
        yield Merges(new_places, opened)


def check_merges(made: Merges, a: Part, b: Part, c: Part) -> None:
    """All four properties, of memories and of their exports."""
    one, two, three = made.of(a), made.of(b), made.of(c)
    whole = content(made.of(c, b, a))
    assert content(made.merged(one, two, three)) == whole
    assert content(made.merged(three, two, one)) == whole
    assert content(made.merged(one, made.merged(two, three))) == whole
    again = made.merged(two, one, two, three)
    assert again.merge(one) == again.merge(again) == 0
    assert content(again) == whole
    texts = [content(store) for store in (one, two, three)]
    assert content(made.loaded(*texts)) == content(made.loaded(*texts[::-1], *texts)) == whole
    assert content(made.loaded(whole)) == whole
