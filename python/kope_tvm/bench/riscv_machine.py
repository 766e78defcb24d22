# SPDX-License-Identifier: Apache-2.0
"""The simulated machine of the suite `riscv`: what a module computes there, and in how many cycles.

One core runs everything: cycles are deterministic, and no contender gains by waking threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm

from kope_tvm.device.program.link import Program
from kope_tvm.device.simulate.program import simulate
from kope_tvm.device.spike.right import right_at
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import load_target
from kope_tvm.measure.mismatch import mismatch_map
from kope_tvm.measure.policy import Expected, expected
from kope_tvm.operators import parse_operator
from kope_tvm.operators.operator import BoundOperator
from kope_tvm.schedules import vecmath
from kope_tvm.target import TargetSpec

Array = npt.NDArray[Any]

VLENS = (256, 512, 1024)
"""Vector lengths at which a winner has to be right."""
SCALAR_FEATURES = ("+m", "+a", "+f", "+d", "+c")
_POISON = 77
_SEED = 3
_POSITIVE = frozenset({"log"})
"""Operators that are only defined above zero."""


@dataclass(frozen=True)
class Ran:
    """One candidate on the simulated machine."""

    cycles: int
    wrong: str
    """Where its output is wrong; empty where it is right."""
    counters: str


def one_core(target: str) -> TargetSpec:
    """A known target with one core."""
    spec = load_target(target)
    machine = {**spec.tvm_target, "num-cores": 1}
    return replace(spec, tvm_target=machine, facts=replace(spec.facts, num_cores=1))


def compiled(mod: tvm.IRModule, target: Mapping[str, object]) -> bytes:
    """The object that LLVM makes of a module."""
    return object_bytes(mod, tvm.target.Target(dict(target)))


@contextmanager
def as_shipped() -> Iterator[None]:
    """TVM without kope's vector code for exp, erf and log."""
    vecmath.uninstall()
    try:
        yield
    finally:
        vecmath.install()


class Bench:
    """One operator, its arguments and what they should give."""

    def __init__(self, operator: str, spec: TargetSpec) -> None:
        self.bound: BoundOperator = parse_operator(operator)
        self.spec = spec

    @cached_property
    def mod(self) -> tvm.IRModule:
        """The untuned function."""
        return self.bound.tir()

    @cached_property
    def arguments(self) -> tuple[Array, ...]:
        """Random inputs, the same for every contender, and a poisoned output."""
        rng = np.random.default_rng(_SEED)
        low = 0.5 if self.bound.operator.name in _POSITIVE else -1.0
        feeds = [_values(rng, each.shape, each.dtype, low) for each in self.bound.inputs]
        out = self.bound.output
        return (*feeds, np.full(out.shape, _POISON, out.dtype))

    @cached_property
    def wanted(self) -> Expected:
        """What NumPy makes of the inputs in float64, and how far off an output may be."""
        feeds = self.arguments[:-1]
        wide = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in feeds]
        narrow = np.asarray(self.bound.reference(*feeds), self.arguments[-1].dtype)
        if narrow.dtype.kind != "f":
            return expected(narrow, None, str(narrow.dtype), is_integers=True)
        truth = np.asarray(self.bound.reference(*wide), np.float64)
        return expected(narrow, truth, str(narrow.dtype), is_integers=False)

    def program(self, object_bytes: bytes) -> Program:
        """The object with its arguments; one call warms the caches, one is timed."""
        written = (*(False for _ in self.arguments[:-1]), True)
        return Program(object_bytes, self.arguments, written, 1, 1, 1)

    def run(self, object_bytes: bytes) -> Ran:
        """Time and check it; raises KopeError where it dies or takes too long."""
        done = simulate(self.program(object_bytes), self.spec)
        poison = self.arguments[-1].reshape(-1)[:1]
        allowed = self.wanted.allowed
        wrong = mismatch_map(done.outputs[0], self.wanted.values, poison, allowed)
        last = done.regions[-1]
        return Ran(last.cycles, wrong, last.line)

    def at_lengths(self, object_bytes: bytes) -> dict[int, str]:
        """What Spike says at each vector length: right, wrong or refused."""
        program, wanted = self.program(object_bytes), self.wanted
        found = right_at(program, [wanted.values], VLENS, [wanted.allowed])
        return {each.vlen_bits: each.word.value for each in found}


def _values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, low: float
) -> npt.NDArray[Any]:
    if "int" in dtype:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.uniform(low, 2.0 if low > 0 else 1.0, shape).astype(dtype)
