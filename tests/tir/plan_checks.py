# SPDX-License-Identifier: Apache-2.0
"""A product and its relu, and what becomes of steps on them."""

from __future__ import annotations

from typing import Any

import tvm
from rule_checks import LLVM
from tvm import te
from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict
from kope_tvm.plan.schedule import planned
from kope_tvm.plan.steps import read_steps
from kope_tvm.proposal import Plan

Steps = list[dict[str, Any]]


def matmul(rows: Any = 32) -> tvm.IRModule:
    """`D = relu(C)`, `C = A @ B`; D is the output."""
    a, b = te.placeholder((rows, 48), name="A"), te.placeholder((48, 64), name="B")
    k = te.reduce_axis((0, 48), name="k")
    c = te.compute((rows, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((rows, 64), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return tvm.IRModule({"main": te.create_prim_func([a, b, d])})


def schedule(mod: tvm.IRModule) -> Schedule:
    return Schedule(mod, debug_mask="none", error_render_level="detail")


def refusal(steps: Steps, mod: tvm.IRModule | None = None) -> str:
    read = read_steps(steps)
    if isinstance(read, Verdict):
        return str(read)
    with tvm.target.Target(LLVM):
        return str(planned(Plan(read), schedule(mod or matmul())))


def on_c(do: str, **args: Any) -> dict[str, Any]:
    return {"do": do, "block": "C", **args}


def mapped(text: str) -> Steps:
    return [on_c("transform_layout", buffer="C", map=text)]
