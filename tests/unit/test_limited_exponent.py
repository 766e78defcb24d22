# SPDX-License-Identifier: Apache-2.0
"""An exponent that is a value less the maximum over its like is said not to be positive."""

from __future__ import annotations

from kope_tvm.rewrite.exponent import with_limited_exponents

_BLOCK = """\
@T.prim_func(s_tir=True)
def main(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32")):
    T.func_attr({{"tirx.noalias": True}})
    m = T.sblock_alloc_buffer((4,))
    for i, j in T.grid(4, 8):
        with T.sblock("largest"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                m[vi] = T.float32(-3.4e38)
            m[vi] = T.max(m[vi], {element})
    for i, k in T.grid(4, 8):
        with T.sblock("exponentials"):
            v, w = T.axis.remap("SS", [i, k])
            T.reads(X[v, w], m[v])
            Y[v, w] = T.exp({exponent})
"""


def _limited(element: str, exponent: str) -> str | None:
    return with_limited_exponents(_BLOCK.format(element=element, exponent=exponent))


def test_a_value_less_the_maximum_of_its_row_is_limited_to_zero() -> None:
    script = _limited("X[vi, vj]", "X[v, w] - m[v]")
    assert script is not None
    assert "Y[v, w] = T.exp(T.Select(X[v, w] - m[v] > 0.0, 0.0, X[v, w] - m[v]))" in script
    assert "func_attr" not in script


def test_any_other_exponent_stays() -> None:
    assert _limited("X[vi, vj]", "X[v, w] + m[v]") is None
    assert _limited("X[vi, vj]", "m[v] - X[v, w]") is None
    assert _limited("X[vi, vj]", "Z[v, w] - m[v]") is None
    assert _limited("X[vj, vi]", "X[v, w] - m[v]") is None
    assert _limited("T.exp(X[vi, vj])", "X[v, w] - m[v]") is None
