# SPDX-License-Identifier: Apache-2.0
"""What a function can be rewritten to that computes the same, for real numbers, with less work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kope_tvm.rewrite.exponent import with_limited_exponents
from kope_tvm.rewrite.key_parts import with_keys_in_parts
from kope_tvm.rewrite.reciprocal import with_reciprocals
from kope_tvm.target import TargetSpec


@dataclass(frozen=True)
class Form:
    """A rewritten function."""

    script: str
    change: str
    """What was done, in a few words."""


def forms(script: str, target: TargetSpec) -> Iterator[Form]:
    """Those that fit the script of a function, as TVM prints it."""
    cheaper = with_cheaper_arithmetic(script)
    if cheaper is not None:
        yield Form(cheaper, "rewrite: cheaper arithmetic of rows")
    # On a CPU a head's weights stay in the nearest caches anyway (`schedules/heads.py`).
    in_parts = with_keys_in_parts(script) if target.facts.isa == "cuda" else None
    if in_parts is not None:
        yield Form(in_parts, "rewrite: attention, its keys in parts")


def with_cheaper_arithmetic(script: str) -> str | None:
    """Every rewrite of single operations, one upon the other; None where nothing fits."""
    limited = with_limited_exponents(script)
    return with_reciprocals(limited or script) or limited
