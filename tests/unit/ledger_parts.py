# SPDX-License-Identifier: Apache-2.0
"""A work_dir with one small task, and outcomes to put into it."""

from __future__ import annotations

import json

import tvm
from tvm import te
from tvm.s_tir import Schedule

from kope_tvm.candidate import Candidate
from kope_tvm.ledger import Ledger
from kope_tvm.memory.experience import Experience
from kope_tvm.proposal import Decisions, Plan, Proposal, Rewrite, Step, lane_of, proposal_text
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.workbench import make_task, state_of, trace_text

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
RECORDS = "database_tuning_record.json"
LANES = ("decisions", "plan", "rewrite")


def module() -> tvm.IRModule:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="B")
    return tvm.IRModule({"main": te.create_prim_func([A, B])})


def task_of_it() -> Task:
    return make_task("add_one", module(), HOST)


def in_two_steps() -> tvm.IRModule:
    """The same function by another sum: a workload of its own."""
    A = te.placeholder((8, 16), name="A")
    half = te.compute((8, 16), lambda i, j: A[i, j] + 0.5, name="half")
    B = te.compute((8, 16), lambda i, j: half[i, j] + 0.5, name="B")
    return tvm.IRModule({"main": te.create_prim_func([A, B])})


def candidate_of(factor: int, lane: str = "decisions") -> Candidate:
    base = in_two_steps() if lane == "rewrite" else None
    sch = Schedule(base or module())
    loop = sch.get_loops(sch.get_sblock("B"))[1]
    sch.split(loop, [None, factor])
    proposals: dict[str, Proposal] = {
        "decisions": Decisions("rule:x", trace_text(sch.trace)),
        "plan": Plan((Step("split", {"block": "B", "loop": "j", "factors": [-1, factor]}),)),
        "rewrite": Rewrite("half = A + 0.5", Decisions("", trace_text(sch.trace))),
    }
    return Candidate(proposals[lane], state_of(sch.mod), sch, base)


def experience_of(task: Task, candidate: Candidate, run_secs: tuple[float, ...]) -> Experience:
    lane = lane_of(candidate.proposal)
    return Experience(
        task_key=task.key, task_name=task.name, features=task.features,
        machine_key=task.target.key, state=candidate.state, parent="", lane=lane,
        space="rule:x" if lane == "decisions" else "", proposal=proposal_text(candidate.proposal),
        proposer="rules", change="",
        round_no=1, order=0, accepted=True, code="" if run_secs else "E_CRASH", reason="",
        suspicious=False, run_secs=run_secs, baseline_secs=1.0, noise=0.0, tokens=0, cites=(),
        seed=1, toolchain="tvm", simulated=False, run_id="r", at=float(sum(run_secs)),
    )  # fmt: skip


def lines(ledger: Ledger) -> list[str]:
    return (ledger.work_dir / RECORDS).read_text(encoding="utf-8").splitlines()


def times(ledger: Ledger) -> list[list[float]]:
    return [json.loads(line)[1][1] for line in lines(ledger)]


def recorded(
    ledger: Ledger, task: Task, factor: int, *secs: float, lane: str = "decisions"
) -> Experience:
    candidate = candidate_of(factor, lane)
    experience = experience_of(task, candidate, secs)
    ledger.record(experience, candidate)
    return experience
