# SPDX-License-Identifier: Apache-2.0
"""A machine to tune for: TVM's target, its facts and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Facts:
    """Hardware features of one core class; 0 or "" where unknown."""

    isa: str = ""
    """`avx512`, `avx2`, `sse`, `rvv`, `neon`, `cuda`."""
    vlen_bits: int = 0
    """Of a GPU the widest load of one thread."""
    vector_registers: int = 0
    """Of a GPU what one thread may have."""
    num_cores: int = 1
    l1_bytes: int = 0
    l2_bytes: int = 0
    l3_bytes: int = 0
    clock_hz: float = 0.0
    peak_flops: float = 0.0
    """float32, all cores; measured where it is not 0."""
    peak_bytes_per_sec: float = 0.0
    tensor_flops: float = 0.0
    """float16 or bfloat16 added up in float32 by matrix units; measured where it is not 0."""
    core: str = ""
    """Name of the core class, where mcpu does not tell it from others."""
    warp_lanes: int = 0
    """Threads that run in step; 0 where the machine is no GPU, as in what follows."""
    core_threads: int = 0
    """Threads at a time on one multiprocessor."""
    core_registers: int = 0
    """Of 32 bits."""
    core_shared_bytes: int = 0
    block_threads: int = 0
    block_shared_bytes: int = 0
    """Dynamic; beyond 48 KiB only on request."""


@dataclass(frozen=True)
class Limits:
    """What a candidate may use up."""

    build_secs: float = 30.0
    run_secs: float = 30.0
    memory_bytes: int = 4 << 30


@dataclass(frozen=True)
class TargetSpec:
    """One machine."""

    name: str
    tvm_target: Mapping[str, object]
    """What `tvm.target.Target` takes; with `num-cores`, unless it is a GPU's."""
    facts: Facts = field(default_factory=Facts)
    limits: Limits = field(default_factory=Limits)
    rpc_key: str = ""
    """Key at the tracker; empty for this machine."""
    summary: str = ""
    code_choices: tuple[str, ...] = ()
    """What of the target string a search decides for each candidate: `tuning`, whose pipeline
    instructions are ordered for, and `vectors`, whether of a fixed length."""

    @property
    def key(self) -> str:
        """The identity under which experience is kept: the core class, not the board."""
        facts = self.facts
        kind = self.tvm_target.get("kind")
        core = facts.core or self.tvm_target.get("mcpu", "")
        return f"{kind}/{core}/{facts.isa}/{facts.vlen_bits}/{facts.num_cores}"


def code_choices(tvm_target: Mapping[str, object], isa: str) -> tuple[str, ...]:
    """What a search may decide of a target string: LLVM models few of RISC-V's pipelines."""
    if isa != "rvv":
        return ()
    has_model = not str(tvm_target.get("mcpu", "generic")).startswith("generic")
    return ("tuning", "vectors") if has_model else ("vectors",)
