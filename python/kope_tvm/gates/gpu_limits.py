# SPDX-License-Identifier: Apache-2.0
"""Refuses what a GPU cannot launch: too many threads, too much shared memory, a broken warp."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.cuda.kernels import Kernel, kernels_of
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.schedule_error import TVM_ERRORS, first_line
from kope_tvm.target import Facts
from kope_tvm.task import Task
from kope_tvm.untuned import scheduled_func

STATIC_SHARED_BYTES = 48 << 10
"""Of a block, unless the memory is dynamic: a limit of the assembler on every chip."""
LOCAL_BYTES = 512 << 10
"""Of a thread, on every chip since compute capability 2.0 (CUDA's programming guide)."""


class GpuLimits:
    """Lowers as a build would, to the point where sizes are known; no compiler runs."""

    cost = 6

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_GPU, naming the limit and what is over it; a CPU has no such limits."""
        facts = task.target.facts
        if not facts.warp_lanes:
            return accept("gpu_limits")
        try:
            kernels = kernels_of(scheduled_func(candidate))
        except TVM_ERRORS as error:
            return refuse("gpu_limits", "E_GPU", f"no lowering: {first_line(error)}")
        faults = (fault(kernel, facts) for kernel in kernels)
        found = next((reason for reason in faults if reason), "")
        if not found:
            return accept("gpu_limits")
        return refuse("gpu_limits", "E_GPU", f"{found} in {task.name}")


def fault(kernel: Kernel, facts: Facts) -> str:
    """The first limit that a kernel breaks; empty where it breaks none."""
    limits = (
        ("threads a block", kernel.threads, facts.block_threads),
        ("bytes of a thread's own memory", kernel.local_bytes, LOCAL_BYTES),
        ("bytes of static shared memory", kernel.static_bytes, STATIC_SHARED_BYTES),
        (
            "bytes of shared memory",
            kernel.static_bytes + kernel.dynamic_bytes,
            facts.block_shared_bytes,
        ),
    )
    for what, used, most in limits:
        if used > most:
            return f"{used} {what}, at most {most}"
    if kernel.uses_matrix_units and kernel.threads % facts.warp_lanes:
        return f"{kernel.threads} threads a block, no multiple of a warp of {facts.warp_lanes}"
    return ""
