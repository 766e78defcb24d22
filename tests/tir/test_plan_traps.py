# SPDX-License-Identifier: Apache-2.0
"""Steps that TVM takes and then computes something else, or ends the process: refused before."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from plan_checks import Steps, mapped, on_c, refusal
from tvm import te, topi

_DECOMPOSE = on_c("decompose_reduction", loop="k")
_CALLERS = "is a parameter of the function: cache_read or cache_write it and take the copy"

_CASES: dict[str, tuple[Steps, str]] = {
    "a producer moved as a consumer": (
        [on_c("reverse_compute_at", at="i", of="D")],
        "step 1 reverse_compute_at(at='i'): its consumer is there: a producer moves by compute_at",
    ),
    "a consumer moved away from its producer": (
        [
            on_c("cache_read", buffer="A", into="copy"),
            {"do": "reverse_compute_at", "block": "D", "at": "ax0", "of": "copy"},
        ],
        "step 2 reverse_compute_at(at='ax0'): nothing that it reads is made there: "
        "take a loop of its producer",
    ),
    "vectorize what two blocks share": (
        [
            {"do": "compute_at", "block": "C", "at": "j", "of": "D"},
            {"do": "vectorize", "block": "D", "loop": "j"},
        ],
        "step 2 vectorize(loop='j'): C, D share it: vectorize a loop of each of its own",
    ),
    "a tile with a tail": (
        [on_c("split", loop="k", factors=[-1, 5]), on_c("blockize", loop="k_0")],
        "step 2 blockize(loop='k_0'): a split under or around it leaves a tail: "
        "take factors that divide",
    ),
    "place a block within a vector": (
        [
            {"do": "vectorize", "block": "D", "loop": "j"},
            {"do": "compute_at", "block": "C", "at": "j", "of": "D"},
        ],
        "step 2 compute_at(at='j'): 'j' is vectorized: place blocks before that",
    ),
    "pad what shares its loops": (
        [
            {"do": "reverse_compute_at", "block": "D", "at": "j", "of": "C"},
            on_c("pad_einsum", padding=[1, 1, 5]),
        ],
        "step 2 pad_einsum(block='C'): C, D share its loops: do this before that",
    ),
    "pad what is no sum of products": (
        [{"do": "pad_einsum", "block": "D", "padding": [5, 1]}],
        "step 1 pad_einsum(block='D'): only a sum of products may be padded with zeros",
    ),
    "reindex what shares its loops": (
        [
            {"do": "compute_at", "block": "C", "at": "j", "of": "D"},
            on_c("reindex", buffer="A"),
        ],
        "step 2 reindex(block='C'): C, D share its loops: do this before that",
    ),
    "pad within a tile": (
        [on_c("blockize", loop="k"), on_c("pad_einsum", padding=[5])],
        "step 2 pad_einsum(block='C'): it lies within a block made of tiles: do this before that",
    ),
    "a copy within a vector": (
        [
            on_c("vectorize", loop="j"),
            on_c("blockize", loop="k"),
            on_c("cache_read", buffer="A"),
        ],
        "step 3 cache_read(block='C'): it lies within vectorized loop 'j'",
    ),
    "a copy of half a reduction": (
        [_DECOMPOSE, on_c("reindex", buffer="C")],
        "step 2 reindex(buffer='C'): C_init, C_update write it: "
        "put decompose_reduction after this step",
    ),
    "a consumer within the reduction": (
        [{"do": "reverse_compute_at", "block": "D", "at": "k", "of": "C"}],
        "step 1 reverse_compute_at(at='k'): it lies in reduction loop 'k', "
        "where the sum is not complete: take a loop outside of that",
    ),
    "a map onto fewer places": (
        mapped("lambda i, j: (i + j,)"),
        "step 1 transform_layout(map='lambda i, j: (i + j,)'): it sends two indices to one place",
    ),
    "a parameter's layout": (
        [on_c("transform_layout", buffer="A", map="lambda i, j: (j, i)")],
        f"step 1 transform_layout(buffer='A'): 'A' {_CALLERS}",
    ),
    "a parameter's scope": (
        [{"do": "set_scope", "block": "D", "buffer": "D", "scope": "local"}],
        f"step 1 set_scope(buffer='D'): 'D' {_CALLERS}",
    ),
}


@pytest.mark.parametrize("case", list(_CASES), ids=list(_CASES))
def test_refusal(case: str) -> None:
    steps, expected = _CASES[case]
    assert refusal(steps) == f"E_STEP {expected}"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            {"do": "reindex", "block": "pad", "buffer": "copy"},
            "step 1 reindex(block='pad'): it reads under a condition, which the copy would not",
        ),
        (
            {"do": "reverse_compute_at", "block": "pad", "at": "i", "of": "copy"},
            "step 1 reverse_compute_at(block='pad'): "
            "what it adds around its producer's values would be lost",
        ),
    ],
)
def test_padding_keeps_its_edges(step: dict[str, Any], reason: str) -> None:
    x = te.placeholder((6, 6), name="x")
    copy = te.compute((6, 6), lambda i, j: x[i, j] * 2.0, name="copy")
    pad = topi.nn.pad(copy, (1, 1), (1, 1), name="pad")
    assert refusal([step], tvm.IRModule({"main": te.create_prim_func([x, pad])})) == (
        f"E_STEP {reason}"
    )
