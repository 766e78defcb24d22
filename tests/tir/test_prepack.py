# SPDX-License-Identifier: Apache-2.0
"""A scheduled function in two: what packs a constant weight, and the rest."""

from __future__ import annotations

import numpy as np
import tvm
from rule_checks import AVX512, LLVM
from tvm import IRModule, tirx
from tvm.s_tir import Schedule

from kope_tvm.operators import parse_operator
from kope_tvm.prepack.split import Split, split
from kope_tvm.schedules.matmul_x86 import schedule

SPEC = "op:matmul:m=64,n=128,k=96"


def scheduled(index: int) -> tirx.PrimFunc:
    return schedule(parse_operator(SPEC).tir()["main"], AVX512)[index].mod["main"]


def packing_splits() -> list[Split]:
    count = len(schedule(parse_operator(SPEC).tir()["main"], AVX512))
    found = [split(scheduled(index), [1], 2) for index in range(count)]
    return [one for one in found if one is not None]


def run(func: tirx.PrimFunc, *arrays: np.ndarray) -> np.ndarray:
    alone = IRModule({"main": func.with_attr("global_symbol", "main")})
    library = tvm.compile(alone, target=tvm.target.Target(LLVM)).jit()
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    library["main"](*tensors)
    return np.asarray(tensors[-1].numpy())


def test_packing_then_the_rest_is_the_whole() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((64, 96)).astype("float32")
    b = rng.standard_normal((96, 128)).astype("float32")
    splits = packing_splits()
    assert len(splits) >= 2  # packed beforehand, and packed where a panel is used
    for found in splits:
        assert (found.sources, found.kept) == ((1,), (0,))
        assert found.shapes == ((8, 96, 16),)
        packed = run(found.pack, b, np.full(found.shapes[0], 77, "float32"))
        assert np.array_equal(packed, b.reshape(96, 8, 16).transpose(1, 0, 2))
        out = run(found.rest, a, packed, np.full((64, 128), 77, "float32"))
        np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)


def test_what_changes_is_not_packed() -> None:
    assert split(scheduled(1), [0], 2) is None
    assert split(scheduled(1), [], 2) is None


def test_a_function_that_packs_nothing_stays_whole() -> None:
    func = parse_operator(SPEC).tir()["main"]
    assert split(Schedule(func).mod["main"], [1], 2) is None
