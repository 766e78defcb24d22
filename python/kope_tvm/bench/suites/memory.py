# SPDX-License-Identifier: Apache-2.0
"""How a memory fares as it grows, and what it is worth to a new operator."""

from __future__ import annotations

from kope_tvm.bench.memory import PARTS, report, run_memory
from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import UsageError


def run(wanted: Wanted) -> None:
    """Bench the parts asked for, or all of them.

    Raises UsageError for a part that is not there.
    """
    if unknown := [part for part in wanted.parts if part not in PARTS]:
        raise UsageError(f"unknown part {unknown[0]!r} of suite memory; parts: {', '.join(PARTS)}")
    found = run_memory(
        wanted.parts or PARTS,
        trials=wanted.trials,
        target=wanted.target or "host",
        seed=wanted.seed,
        say=wanted.say,
    )
    report(found, wanted.json_file)
