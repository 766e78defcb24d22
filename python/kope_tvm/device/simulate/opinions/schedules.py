# SPDX-License-Identifier: Apache-2.0
"""Schedules of several operators to compare opinions on: every rule's spaces, guessed and drawn."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from kope_tvm import registry
from kope_tvm.device.program.link import Array, Program
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import tvm_target
from kope_tvm.operators import parse_operator
from kope_tvm.operators.operator import BoundOperator
from kope_tvm.target import TargetSpec

FAMILIES = (
    ("matmul", "op:matmul:m=64,n=64,k=64,dtype=float32", "matmul_rvv"),
    ("matvec", "op:matmul:m=1,n=64,k=96,dtype=float32", "matmul_rvv"),
    ("matmul int8", "op:matmul_int8:m=32,n=64,k=32,dtype=int8", "matmul_rvv"),
    ("softmax", "op:softmax:m=14,n=185,dtype=float32", "softmax_rvv"),
    ("reduction", "op:reduce_sum:m=32,n=160,dtype=float32", "reduce_rvv"),
    ("elementwise", "op:bias_add:m=24,n=128,dtype=float32", "elementwise_rvv"),
)
"""Name, operator, the rule whose spaces are drawn from.

All but the first fit into a first-level cache: `llvm-mca` knows no memory, only the pipeline.
"""


@dataclass(frozen=True)
class Scheduled:
    """One schedule of one operator, compiled."""

    family: str
    label: str
    program: Program


def scheduled(
    spec: TargetSpec, num_each: int, families: Sequence[tuple[str, str, str]] = FAMILIES
) -> Iterator[Scheduled]:
    """At most so many different schedules of every family, the same ones each time."""
    for family, operator, rule in families:
        bound = parse_operator(operator)
        arguments, written = _arguments(bound)
        seen: set[bytes] = set()
        for label, mod in _modules(bound, rule, spec, num_each):
            made = object_bytes(mod, tvm_target(spec))
            if len(seen) < num_each and made not in seen:
                seen.add(made)
                yield Scheduled(family, label, Program(made, arguments, written, num_warm=1))


def untuned(spec: TargetSpec, family: str, operator: str) -> Scheduled:
    """A family's operator as it is written."""
    bound = parse_operator(operator)
    program = Program(object_bytes(bound.tir(), tvm_target(spec)), *_arguments(bound), num_warm=1)
    return Scheduled(family, "untuned", program)


def _arguments(bound: BoundOperator) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
    rng = np.random.default_rng(3)
    feeds = [
        rng.integers(-9, 9, each.shape).astype(each.dtype)
        if each.dtype.startswith("int")
        else rng.uniform(0.5, 2.0, each.shape).astype(each.dtype)
        for each in bound.inputs
    ]
    out = np.zeros_like(np.asarray(bound.reference(*feeds)))
    return (*feeds, out), (*(False for _ in feeds), True)


def _modules(
    bound: BoundOperator, rule: str, spec: TargetSpec, num_each: int
) -> Iterator[tuple[str, IRModule]]:
    with tvm_target(spec):
        spaces = registry.load("schedules", rule)(bound.tir()["main"], spec)
    for number, space in enumerate(spaces):
        yield f"{rule}#{number}", space.mod
    for seed in range(num_each):
        space = spaces[seed % len(spaces)]
        yield f"{rule}#{seed % len(spaces)} drawn {seed}", _drawn(bound.tir(), space, seed).mod


def _drawn(mod: IRModule, space: Schedule, seed: int) -> Schedule:
    rng, trace = random.Random(seed), space.trace
    for inst in [*trace.insts]:
        if inst.kind.name == "SampleCategorical":
            decision = rng.randrange(len(inst.attrs[0]))
            trace = trace.with_decision(inst, decision, remove_postproc=False)
    fresh = Schedule(mod)
    trace.apply_to_schedule(fresh, remove_postproc=False)
    return fresh
