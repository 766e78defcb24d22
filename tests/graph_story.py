# SPDX-License-Identifier: Apache-2.0
"""A small memory in which everything happened that a graph can show."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from experiences import SOFTMAX_FIRST
from kope_tvm.memory import Experience, experience_key
from kope_tvm.task import Features

HOSTILE = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=2">'
SOFTMAX, BOARD = "beef0001cafe", "llvm/spacemit-x60/rvv/256/8"

GUESS: Experience = replace(
    SOFTMAX_FIRST,
    task_key=SOFTMAX,
    task_name="softmax",
    features=Features("softmax", (512,), (1024,), ("float32", "float32"), 2e6, 4e6, 4),
    state="guess",
    proposal="the first trace",
    proposer="rules",
    change="first guess",
    run_secs=(4e-3,),
    baseline_secs=8e-3,
    noise=0.012,
    toolchain="tvm 0.27.0.post1, ffi 0.1.14.post1, llvm 22.1.8",
    run_id="run-1",
    at=1_764_460_000.0,
)


def after(parent: str, state: str, millisecs: float, **changes: Any) -> Experience:
    """A measured decision."""
    at = GUESS.at + changes.get("order", 0)
    first = replace(GUESS, parent=parent, state=state, proposal=f"script of {state}", at=at)
    return replace(first, run_secs=(millisecs * 1e-3,), **changes)


def failed(parent: str, state: str, code: str, reason: str, **changes: Any) -> Experience:
    """A decision that was not measured."""
    tried = after(parent, state, 1.0, **changes)
    return replace(tried, run_secs=(), code=code, reason=reason, accepted=False)


FUSED = after(
    "guess", "fused", 1.0, order=1, change="fuse both passes", lane="rewrite", proposer="chat",
    tokens=812, noise=0.07,
)  # fmt: skip
SPLIT = after("fused", "split", 0.5, order=2, change="split(j, [4, 8])", lane="plan")
DROPPED = failed(
    "guess", "dropped", "E_NUMERICS", "max_rel 3.1e-2 at [63,0..15]", order=3, lane="rewrite",
    change=f"drop the max {HOSTILE}",
)  # fmt: skip
KEPT = after(
    "dropped", "kept", 2.0, order=4, change="keep the max", lane="rewrite",
    repairs="dropped", repair_turn=1, signature="E_NUMERICS tail",
)  # fmt: skip
CHEAT = after(
    "split", "cheat", 0.05, order=5, change="skip rows", suspicious=True, reason="160x: prove it"
)
SLOW = after("guess", "slow", 16.0, order=6, change="tile 8 -> 16")
CARRIED = replace(
    after("split", "carried", 4.0, order=7, change="vector tile = 2 x VLEN"),
    machine_key=BOARD,
    baseline_secs=40e-3,
    source=experience_key(SPLIT),
    relative='{"inner":"2*VLEN"}',
    run_id="run-2",
)
GELU = replace(
    after("", "gelu", 1.0, order=8, change="unroll the tail"),
    task_key="f00d0002cafe",
    task_name="gelu",
    features=Features("elementwise", (4096,), (), ("float32",), 4e4, 3e4, 1),
)
STORY = (GUESS, FUSED, SPLIT, DROPPED, KEPT, CHEAT, SLOW, CARRIED, GELU)


def crowd(count: int) -> list[Experience]:
    """Many decisions on one task, half of them from the untuned function, some failed."""
    chooser = random.Random(1)
    states, made = [""], []
    for number in range(count):
        parent = "" if chooser.random() < 0.5 else chooser.choice(states[-400:])
        state, millisecs = f"s{number}", chooser.uniform(1.0, 12.0)
        change = f"tile {number} -> {number + 1}"
        if chooser.random() < 0.12:
            one = failed(parent, state, "E_BUILD", "no", order=number, change=change)
        else:
            one = after(parent, state, millisecs, order=number, change=change)
            states.append(state)
        made.append(replace(one, task_key="c0ffee03cafe", task_name="crowd"))
    return made
