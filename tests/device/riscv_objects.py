# SPDX-License-Identifier: Apache-2.0
"""Operators compiled for a RISC-V target by a schedule rule, with inputs and reference outputs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from tvm.s_tir import Schedule

from kope_tvm import registry
from kope_tvm.device.program.link import Array, Program
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.operators import parse_operator

MATMUL = "op:matmul:m=64,n=64,k=64,dtype=float32"


def space(target: str, operator: str, rule: str, number: int = 0) -> Schedule:
    """One of a rule's spaces, at its first guess."""
    spec = load_target(target)
    with tvm_target(spec):
        func = parse_operator(operator).tir()["main"]
        spaces: list[Schedule] = registry.load("schedules", rule)(func, spec)
    return spaces[number]


@lru_cache(maxsize=8)
def program(target: str, operator: str, rule: str, number: int = 0) -> tuple[Program, Array]:
    """A rule's space at its first guess, and what the operator's reference says."""
    spec, bound = load_target(target), parse_operator(operator)
    rng = np.random.default_rng(3)
    feeds = [_values(rng, each.shape, each.dtype) for each in bound.inputs]
    wanted = np.asarray(bound.reference(*feeds))
    arguments = (*feeds, np.full_like(wanted, 77))
    written = (*(False for _ in feeds), True)
    made = object_bytes(space(target, operator, rule, number).mod, tvm_target(spec))
    return Program(made, arguments, written, spec.facts.num_cores, 1, 1), wanted


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype.startswith("int"):
        return rng.integers(-9, 9, shape).astype(dtype)
    return rng.uniform(0.5, 2.0, shape).astype(dtype)
