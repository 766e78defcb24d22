# SPDX-License-Identifier: Apache-2.0
"""A function computed by cheaper arithmetic: every rewrite that fits it, one upon the other."""

from __future__ import annotations

from kope_tvm.rewrite.exponent import with_limited_exponents
from kope_tvm.rewrite.reciprocal import with_reciprocals


def with_cheaper_arithmetic(script: str) -> str | None:
    """The script of a function, as TVM prints it, rewritten; None where nothing fits."""
    limited = with_limited_exponents(script)
    return with_reciprocals(limited or script) or limited
