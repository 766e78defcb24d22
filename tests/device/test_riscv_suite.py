# SPDX-License-Identifier: Apache-2.0
"""The suite `riscv` on one small operator, on the simulated machine."""

from __future__ import annotations

from pathlib import Path

from kope_tvm.bench.riscv import run_riscv
from kope_tvm.bench.riscv_result import AUTOVEC, CONTENDERS, KOPE, SCALAR

RELU = "op:relu:m=8,n=64,dtype=float32"


def test_every_contender_is_right_and_made_once(tmp_path: Path) -> None:
    said: list[str] = []
    first = run_riscv((RELU,), trials=2, scratch=tmp_path, say=said.append)
    (operator,) = first.operators
    assert set(operator.entries) == set(CONTENDERS)
    assert all(entry.is_right for entry in operator.entries.values())
    assert operator.entries[KOPE].lengths == {256: "right", 512: "right", 1024: "right"}
    # eight float32 a vector: scalar code needs several times the instructions
    assert operator.entries[SCALAR].cycles > 3 * operator.entries[AUTOVEC].cycles
    assert len(said) == len(CONTENDERS)
    again = run_riscv((RELU,), trials=2, scratch=tmp_path, say=said.append)
    assert (again.operators, len(said)) == (first.operators, len(CONTENDERS))
