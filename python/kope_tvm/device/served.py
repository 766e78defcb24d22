# SPDX-License-Identifier: Apache-2.0
"""Targets that are reached through a server, and can have ours."""

from __future__ import annotations

from kope_tvm.errors import UsageError
from kope_tvm.machine import read_target
from kope_tvm.target import TargetSpec

_TRIPLE = "riscv64"


def is_served(spec: TargetSpec) -> bool:
    """Whether candidates for it are measured by a server of ours, and not by this process."""
    return bool(spec.rpc_key)


def riscv_target(name_or_path: str) -> TargetSpec:
    """The target of a RISC-V board, without asking LLVM; UsageError for any other."""
    spec = read_target(name_or_path)
    triple = str(spec.tvm_target.get("mtriple", ""))
    if not triple.startswith(_TRIPLE) or not spec.rpc_key:
        raise UsageError(
            f"target {spec.name!r} is no RISC-V board: expected an mtriple {_TRIPLE}-... and an "
            f"[rpc] key, found {triple or 'no mtriple'} and {spec.rpc_key or 'no key'}; "
            "kope targets lists what is known"
        )
    return spec
