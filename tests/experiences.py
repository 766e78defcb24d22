# SPDX-License-Identifier: Apache-2.0
"""Experiences that tests vary: everything of them is said here once."""

from __future__ import annotations

from dataclasses import replace

from kope_tvm.memory import Experience, Recalled
from kope_tvm.proposal import Proposal, lane_of, proposal_text, space_of
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Features, Task

SPEC = TargetSpec("host", {"kind": "llvm", "mcpu": "znver5"}, Facts("avx512", 512, 32, 2))
OTHER_SPEC = TargetSpec("old", {"kind": "llvm", "mcpu": "haswell"}, Facts("avx2", 256, 16, 2))
SOFTMAX = Features("softmax", (512, 1024), (), ("float32", "float32"), 4e6, 4e6, 4)
MATMUL = Features("matmul", (512, 512), (512,), ("float32",) * 3, 2.7e8, 3e6, 1)

SOFTMAX_FIRST = Experience(
    task_key="f00d",
    task_name="main",
    features=SOFTMAX,
    machine_key=SPEC.key,
    state="s1",
    parent="",
    lane="decisions",
    space="rule:softmax_x86",
    proposal="best",
    proposer="sketch",
    change="tile 8 -> 16",
    round_no=1,
    order=0,
    accepted=True,
    code="",
    reason="",
    suspicious=False,
    run_secs=(1e-3,),
    baseline_secs=2e-3,
    noise=0.0,
    tokens=0,
    cites=(),
    seed=42,
    toolchain="tvm 0.27.0.post1",
    simulated=False,
    run_id="run",
    at=1000.0,
)
MATMUL_FIRST = replace(
    SOFTMAX_FIRST,
    features=MATMUL,
    state="a",
    space="rule:matmul_x86",
    proposal="a",
    change="",
    run_secs=(4e-3,),
    baseline_secs=8e-3,
)


def measured(proposal: str, secs: float, task_key: str = "f00d") -> Experience:
    """A softmax that took so long."""
    return replace(
        SOFTMAX_FIRST, proposal=proposal, state=proposal, run_secs=(secs,), task_key=task_key
    )


def failed(proposal: str, code: str = "E_BUILD", task_key: str = "f00d") -> Experience:
    """A softmax that was not measured."""
    refused = replace(SOFTMAX_FIRST, code=code, reason="no such loop", accepted=False, run_secs=())
    return replace(refused, proposal=proposal, state=proposal, task_key=task_key)


def recalled(
    proposal: Proposal, task: Task, *, proposer: str, similarity: float, value: float, why: str
) -> Recalled:
    """A proposal as recall hands it back, made on `task`."""
    source = replace(
        SOFTMAX_FIRST,
        task_key=task.key,
        task_name=task.name,
        features=task.features,
        machine_key=task.target.key,
        state="old",
        lane=lane_of(proposal),
        space=space_of(proposal),
        proposal=proposal_text(proposal),
        proposer=proposer,
        change="",
        seed=1,
        at=1.0,
    )
    return Recalled(source, similarity, value, why)
