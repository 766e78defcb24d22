# SPDX-License-Identifier: Apache-2.0
"""On schedules drawn at random, whatever the C++ passes claim is what running the loops shows.

TVM's primitives leave some of them wrong: `pad_einsum` and `reverse_compute_at` drop predicates or
put a producer behind its consumers. So both answers occur.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import tvm
from executed import Execution, Memory
from tvm.s_tir import Schedule

from kope_tvm import static_checks
from kope_tvm.operators import known_operators
from kope_tvm.schedule_error import TVM_ERRORS

SIZES = {
    **{"n": 5, "m": 6, "k": 7, "b": 2, "h": 3, "d": 4},
    **{"ci": 2, "co": 3, "w": 5, "groups": 1},
    **{"s": 5, "t": 3, "g": 2, "r": 2, "v": 7},
}
NUM_STEPS = 12
NUM_SCHEDULES = 12
"""Of each operator."""


def split(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    sch.split(rng.choice(loops), [None, rng.choice([2, 3, 4, 5])])


def fuse(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    first = rng.randrange(len(loops) - 1)
    sch.fuse(loops[first], loops[first + 1])


def reorder(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    sch.reorder(*rng.sample(loops, len(loops)))


def cache(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    rng.choice([sch.cache_read, sch.cache_write])(block, 0, "global")


def move(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    other = sch.get_loops(rng.choice(sch.get_child_blocks(sch.get_sblock("root"))))
    rng.choice([sch.compute_at, sch.reverse_compute_at])(block, rng.choice(other))


def inline(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    rng.choice([sch.compute_inline, sch.reverse_compute_inline])(block)


def reduce(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    if rng.random() < 0.5:
        sch.rfactor(rng.choice(loops), 0)
    else:
        sch.decompose_reduction(block, rng.choice(loops))


def mark(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    rng.choice([sch.parallel, sch.vectorize, sch.unroll])(rng.choice(loops))


def pad(sch: Schedule, rng: random.Random, block: Any, loops: list[Any]) -> None:
    sch.pad_einsum(block, [rng.choice([1, 4]) for _ in sch.get(block).iter_vars])


STEPS = (split, split, fuse, reorder, cache, move, move, inline, reduce, mark, pad)


def drawn(mod: tvm.IRModule, rng: random.Random) -> tvm.tirx.PrimFunc:
    """A schedule of as many random steps as apply."""
    sch = Schedule(mod, error_render_level="none")
    for _ in range(rng.randrange(2, NUM_STEPS)):
        trial = sch.copy()
        block = rng.choice(trial.get_child_blocks(trial.get_sblock("root")))
        try:
            rng.choice(STEPS)(trial, rng, block, list(trial.get_loops(block)))
        except (*TVM_ERRORS, ValueError, IndexError):
            continue
        sch = trial
    return sch.mod["main"]


def test_no_claim_is_wrong() -> None:
    counts: Counter[str] = Counter()
    for operator in known_operators():
        mod, rng = untuned(operator), random.Random(operator)
        for _ in range(NUM_SCHEDULES):
            counts += check(drawn(mod, rng))
    assert min(counts["uninitialised"], counts["outside"]) > 0, "nothing was claimed"


def untuned(operator: str) -> tvm.IRModule:
    found = known_operators()[operator]
    sizes = {name: size for name, size in SIZES.items() if name in found.sizes}
    if operator.startswith(("matmul_nbits", "matmul_q")):
        sizes["k"] = 32
    return found.tir(**sizes)


def check(func: tvm.tirx.PrimFunc) -> Counter[str]:
    """Compare, and count the claims of each kind."""
    ran, outputs = Execution(func), static_checks.written_params(func)
    counts: Counter[str] = Counter()
    for one in static_checks.write_coverage(func, outputs):
        assert one.written in (ran.param(one.param).coverage, "unknown"), func.script()
    claims: dict[str, tuple[tuple[Any, ...], Callable[[Memory], Any]]] = {
        "uninitialised": (static_checks.uninitialised_reads(func), lambda one: one.uninitialised),
        "outside": (static_checks.out_of_bounds(func), lambda one: one.outside),
        "races": (static_checks.races(func), lambda one: one.races),
    }
    for kind, (claimed, is_so) in claims.items():
        buffers = {one.name for one in ran.memories.values() if is_so(one)}
        if kind == "uninitialised":
            inputs = {one.name for one in ran.memories.values() if one.param not in (-1, *outputs)}
            buffers -= inputs
        assert {one.buffer for one in claimed} <= buffers, func.script()
        counts[kind] += len(claimed)
    return counts
