# SPDX-License-Identifier: Apache-2.0
"""A division by a row value is taken out of the loop over the row."""

from __future__ import annotations

from kope_tvm.rewrite.reciprocal import with_reciprocals

_BLOCK = """\
@T.prim_func(s_tir=True)
def main(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32")):
    T.func_attr({{"tirx.noalias": True}})
    s = T.sblock_alloc_buffer((4,))
    for i, j in T.grid(4, 8):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + X[vi, vj]
    for i, j in T.grid(4, 8):
        with T.sblock("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, vj], s[vi])
            {store}
"""


def test_the_reciprocal_is_made_once_a_row() -> None:
    script = with_reciprocals(_BLOCK.format(store="Y[vi, vj] = X[vi, vj] / s[vi]"))
    assert script is not None
    assert "Y[vi, vj] = X[vi, vj] * s_reciprocal[vi]" in script
    assert "s_reciprocal = T.sblock_alloc_buffer((4,))" in script
    assert "s_reciprocal[v_r0] = 1.0 / s[v_r0]" in script
    assert "func_attr" not in script


def test_a_division_by_each_element_or_by_an_input_stays() -> None:
    for store in ("Y[vi, vj] = s[vi] / X[vi, vj]", "Y[vi, vj] = X[vi, vj] / X[vi, 0]"):
        assert with_reciprocals(_BLOCK.format(store=store)) is None
