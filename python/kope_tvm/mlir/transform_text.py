# SPDX-License-Identifier: Apache-2.0
"""Sentences of the transform dialect that more than one script says."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.mlir.allow_list import ENTRY

ANY = "!transform.any_op"
FUNCTION = f"""\
    %function = transform.structured.match ops{{["func.func"]}} in %root : ({ANY}) -> {ANY}
"""
CLEAN = f"""\
    transform.apply_patterns to %function {{
      transform.apply_patterns.canonicalization
    }} : {ANY}
    transform.apply_cse to %function : {ANY}
"""
PADS_AS_FILLS = f"""\
    %padded = transform.structured.match ops{{["func.func"]}} in %root : ({ANY}) -> {ANY}
    transform.apply_patterns to %padded {{
      transform.apply_patterns.linalg.decompose_pad
    }} : {ANY}
"""
"""Fused into a tile, a pad would ask at every tile which of its sides it touches."""
FUSE_ELEMENTWISE = f"""\
    %named = transform.structured.match ops{{["func.func"]}} in %root : ({ANY}) -> {ANY}
    %generic = transform.apply_registered_pass "linalg-generalize-named-ops" to %named
      : ({ANY}) -> {ANY}
    %fused = transform.apply_registered_pass "linalg-fuse-elementwise-ops" to %generic
      : ({ANY}) -> {ANY}
"""


def sequence(body: str) -> str:
    """A module whose named sequence says the body; `%root` is what it is applied to."""
    return (
        "module attributes {transform.with_named_sequence} {\n"
        f"  transform.named_sequence @{ENTRY}(%root: {ANY} {{transform.readonly}}) {{\n"
        f"{body}"
        "    transform.yield\n"
        "  }\n"
        "}\n"
    )


def ops_of(name: str, count: int, where: str) -> str:
    """Handles `%name#0`... to the linalg ops within another handle, in program order."""
    kinds = ", ".join([ANY] * count)
    return (
        f"    %{name}_all = transform.structured.match interface{{LinalgOp}} in {where}"
        f" : ({ANY}) -> {ANY}\n"
        f"    %{name}:{count} = transform.split_handle %{name}_all : ({ANY}) -> ({kinds})\n"
    )


def spelt(sizes: Sequence[int]) -> str:
    """`[8, 32]`."""
    return f"[{', '.join(map(str, sizes))}]"
