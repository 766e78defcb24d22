# SPDX-License-Identifier: Apache-2.0
"""What the static gates hold a candidate against: the untuned function, and what it tensorized."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

import tvm
from tvm.s_tir import TensorIntrin

from kope_tvm.candidate import Candidate
from kope_tvm.static_checks import amounts, written_params
from kope_tvm.task import Task

_Found = TypeVar("_Found")

_TASKS = 64
"""Kept at a time: a model's tasks, while their candidates are checked."""
_CHECKS = 16


def scheduled_func(candidate: Candidate) -> Any:
    """The PrimFunc that would be built."""
    return candidate.sch.mod["main"]


def untuned_func(task: Task) -> Any:
    """The task's PrimFunc."""
    return _func(task.mod_json)


@lru_cache(maxsize=_TASKS)
def _func(mod_json: str) -> Any:
    return tvm.ir.load_json(mod_json)["main"]


def of_untuned(check: Callable[[Any], _Found], task: Task) -> _Found:
    """What `check` finds in the task's PrimFunc; worked out once a task."""
    return cast(_Found, _of_untuned(check, task.mod_json))


@lru_cache(maxsize=_TASKS * _CHECKS)
def _of_untuned(check: Callable[[Any], object], mod_json: str) -> object:
    return check(_func(mod_json))


def outputs(task: Task) -> tuple[int, ...]:
    """Places of the parameters that the untuned function writes to."""
    return of_untuned(written_params, task)


def of_intrinsics(check: Callable[[Any], frozenset[str]], candidate: Candidate) -> frozenset[str]:
    """What `check` finds in the implementations of the intrinsics that the trace tensorizes with.

    They are this process's own: neither a model's reply nor a record can register one.
    """
    insts = candidate.sch.trace.insts
    names = {str(inst.attrs[0]) for inst in insts if inst.kind.name == "Tensorize"}
    found: frozenset[str] = frozenset()
    return found.union(*(_of_intrinsic(check, name) for name in names))


@lru_cache(maxsize=_TASKS * _CHECKS)
def _of_intrinsic(check: Callable[[Any], frozenset[str]], name: str) -> frozenset[str]:
    intrinsic = TensorIntrin.get(name, allow_missing=True)
    return frozenset() if intrinsic is None else check(intrinsic.impl)


def work_ratio(candidate: Candidate, task: Task) -> float:
    """Operations of the candidate over those of the untuned function; 1 where that has none.

    Below 0.9 the algorithm is another one, honest (Winograd: 0.44) or not.
    """
    expected = of_untuned(amounts, task).flops
    return amounts(scheduled_func(candidate)).flops / expected if expected else 1.0
