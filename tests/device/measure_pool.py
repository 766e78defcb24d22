# SPDX-License-Identifier: Apache-2.0
"""What the tests of the measuring pool share."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import tvm

from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.outcome import Measurement
from kope_tvm.target import Limits, TargetSpec

LOG = logging.getLogger(__name__)
SPEC = TargetSpec(
    "host", {"kind": "llvm", "num-cores": 2}, limits=Limits(build_secs=20, run_secs=3)
)
QUICK = MeasureConfig(repeat=2, min_repeat_ms=5)


def mod_of(func: tvm.tirx.PrimFunc) -> tvm.IRModule:
    """A module of one function."""
    return tvm.IRModule({"main": func})


def measured(
    pool: Pool,
    funcs: Sequence[tvm.tirx.PrimFunc],
    reference: tvm.tirx.PrimFunc,
    prove_secs: float | None = None,
) -> list[Measurement]:
    """Of each function, checked against another; on every case below `prove_secs`."""
    mods = [mod_of(func) for func in funcs]
    found = dict(pool.measure(mods, reference=mod_of(reference), prove_secs=prove_secs))
    return [found[index] for index in range(len(funcs))]
