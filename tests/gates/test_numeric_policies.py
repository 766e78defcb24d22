# SPDX-License-Identifier: Apache-2.0
"""Of every dtype: honest schedules of an operator pass, a wrong one does not."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import pytest
import tvm
from tvm.s_tir import Schedule

from kope_tvm.machine import load_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.operators import known_operators

HOST = load_target("host")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    config = MeasureConfig(repeat=1, min_repeat_ms=1)
    with Pool(HOST, config, logging.getLogger(__name__)) as shared:
        yield shared


def _untuned(spec: str) -> tvm.IRModule:
    ((_, mod, _),) = extract_tasks(load_model(spec), HOST)
    return mod


def _tiled(mod: tvm.IRModule) -> tvm.IRModule:
    """Rows in vectors, sums unrolled by four."""
    sch = Schedule(mod)
    *rows, last, k = sch.get_loops(sch.get_sblock(_reductions(sch)[0]))
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(*rows, k_0, k_1, last)
    sch.unroll(k_1)
    sch.parallel(rows[0])
    return sch.mod


def _reductions(sch: Schedule) -> list[str]:
    found = []
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        if sch.get(block).init is not None:
            found.append(sch.get(block).name_hint)
    return found


MATMULS = {
    "float32": "op:matmul:m=64,n=64,k=512,dtype=float32",
    "float16": "op:matmul:m=64,n=64,k=512,dtype=float16",
    "int8": "op:matmul_int8:m=64,n=64,k=512,dtype=int8",
}


@pytest.mark.parametrize("dtype", MATMULS)
def test_honest_orders_of_a_sum_pass(dtype: str, pool: Pool) -> None:
    mod = _untuned(MATMULS[dtype])
    given = [mod, _tiled(mod)]
    found = dict(pool.measure(given, reference=mod, prove_secs=math.inf))
    assert [found[index].error for index in (0, 1)] == ["", ""]
    assert found[1].is_proven


def _rfactored(mod: tvm.IRModule) -> tvm.IRModule:
    sch = Schedule(mod)
    block = sch.get_sblock(_reductions(sch)[0])
    *_, k = sch.get_loops(block)
    _, inner = sch.split(k, [None, 16])
    sch.rfactor(inner, 0)
    return sch.mod


@pytest.mark.parametrize("dtype", MATMULS)
def test_a_sum_in_sixteen_parts_passes(dtype: str, pool: Pool) -> None:
    mod = _untuned(MATMULS[dtype])
    ((_, found),) = pool.measure([_rfactored(mod)], reference=mod, prove_secs=math.inf)
    assert found.error == ""


def _narrowed(mod: tvm.IRModule, dtype: str) -> tvm.IRModule:
    sch = Schedule(mod)
    block = sch.get_sblock(_reductions(sch)[0])
    sch.cache_write(block, 0, "global")
    sch.unsafe_set_dtype(block, 0, dtype)
    return sch.mod


@pytest.mark.parametrize(("dtype", "narrow"), [("float32", "float16"), ("int8", "int16")])
def test_a_narrow_accumulator_is_refused(dtype: str, narrow: str, pool: Pool) -> None:
    mod = _untuned(MATMULS[dtype])
    ((_, found),) = pool.measure([_narrowed(mod, narrow)], reference=mod, prove_secs=math.inf)
    assert found.code == "E_NUMERICS", found
    assert found.max_error > 10


def test_a_wider_accumulator_is_as_right(pool: Pool) -> None:
    mod = _untuned(MATMULS["float16"])
    ((_, found),) = pool.measure([_narrowed(mod, "float32")], reference=mod, prove_secs=math.inf)
    assert found.error == ""


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        (name, dtype)
        for name, operator in known_operators().items()
        for dtype in operator.dtypes
        if set(operator.sizes) == {"m", "n"}
    ],
)
def test_every_operator_is_right_by_itself(operator: str, dtype: str, pool: Pool) -> None:
    mod = _untuned(f"op:{operator}:m=32,n=300,dtype={dtype}")
    ((_, found),) = pool.measure([mod], reference=mod, prove_secs=math.inf)
    assert found.error == ""
    assert found.is_proven
