# SPDX-License-Identifier: Apache-2.0
"""TVM's tensor intrinsics that give wrong results, by name: what no trace may tensorize with."""

from __future__ import annotations

import re

from tvm.target import Target, codegen

_RVV_DOT = re.compile(r"\b(rvv_dot_\w+)")
"""It ignores where its tile lies: every row after the first gets the first one's product, twice."""


def wrong_intrinsic(trace_json: str) -> str:
    """The first one that a trace, as JSON, tensorizes with; empty where there is none."""
    found = _RVV_DOT.search(trace_json)
    return found[1] if found else ""


def without_wrong_spaces(target: Target) -> Target:
    """A target that has MetaSchedule's design spaces, but for those with wrong intrinsics.

    They come with RISC-V's feature `v`; `zve64d` is what vectors are without it.
    """
    if "riscv" not in str(target.attrs.get("mtriple", "")):
        return target
    if not codegen.target_has_features("v", target):
        return target
    config = dict(target.export())
    features = [str(each) for each in config.get("mattr", ()) if str(each) != "+v"]
    kept = {key: config[key] for key in config if key not in ("tag", "keys", "mattr")}
    return Target({**kept, "mattr": [*features, "-v", "+zve64d"]})
