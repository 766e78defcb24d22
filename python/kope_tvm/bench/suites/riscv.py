# SPDX-License-Identifier: Apache-2.0
"""Simulated cycles on a RISC-V machine."""

from __future__ import annotations

from kope_tvm.bench.riscv import TARGET, report, run_riscv
from kope_tvm.bench.wanted import Wanted


def run(wanted: Wanted) -> None:
    """Bench kope, untuned code and stock MetaSchedule on one simulated core."""
    target = wanted.target or TARGET
    found = run_riscv(trials=wanted.trials, target=target, seed=wanted.seed, say=wanted.say)
    report(found, wanted.json_file)
