# SPDX-License-Identifier: Apache-2.0
"""Honest rewrites, as models write them, pass the reader and compute what NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from pathlib import Path

import numpy as np
import pytest
import tvm
from rule_checks import Array, inputs, run
from tvm import te
from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict
from kope_tvm.rewrite.parse import rewritten

SCRIPTS = Path(__file__).parents[1] / "gates" / "hostile" / "honest"


def matmul(a: Array, w: Array) -> Array:
    return np.asarray(a @ w)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def layernorm(x: Array, scale: Array) -> Array:
    mean = x.mean(axis=-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * scale)


def depthwise(x: Array, kernel: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [(r, s) for r in range(3) for s in range(3)]
    return np.asarray(
        sum(
            padded[:, :, r : r + 9 : 2, s : s + 9 : 2] * kernel[:, r, s, None, None]
            for r, s in taps
        )
    )


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))))


def relu_of_sum(a: Array, b: Array) -> Array:
    return np.maximum(a + b, 0)


def int4_matmul(a: Array, packed: Array, scale: Array) -> Array:
    nibbles = (packed[:, :, None] >> (4 * np.arange(8))) & 15
    weights = (nibbles.reshape(7, 32) - 8) * scale[:, None]
    return np.asarray(a @ weights.T)


def attention(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T) @ v


def transposed(a: Array) -> Array:
    return a.T


def conditional(a: Array) -> Array:
    rows, columns = np.indices(a.shape)
    chosen = ((rows > 2) & (columns != 3)) | (rows >= 9)
    other = np.where(rows % 2 == 0, -2 * a, 2 * a // 3)
    return np.where(chosen, np.minimum(np.abs(2 * a), 16), other)


@dataclass(frozen=True)
class Case:
    shapes: tuple[tuple[int, ...], ...]
    """Of the inputs and, last, the output."""
    expected: Callable[..., Array]
    dtypes: tuple[str, ...] = ()
    """As many, or float32 throughout."""


CASES = {
    "exp": Case(((16, 16), (16, 16)), lambda a: np.exp(a)),
    "matmul_81x41x19": Case(((81, 19), (19, 41), (81, 41)), matmul),
    "softmax_one_pass": Case(((12, 33), (12, 33)), softmax),
    "layernorm": Case(((6, 40), (40,), (6, 40)), layernorm),
    "depthwise_conv": Case(((1, 8, 9, 9), (8, 3, 3), (1, 8, 5, 5)), depthwise),
    "elementwise_vectorized": Case(((4096,), (4096,)), gelu),
    "ir_module_old_spelling": Case(((64, 32), (64, 32), (64, 32)), relu_of_sum),
    "int4_weights": Case(
        ((5, 32), (7, 4), (7,), (5, 7)), int4_matmul, ("float32", "int32", "float32", "float32")
    ),
    "attention_online": Case(((16, 8), (24, 8), (24, 8), (16, 8)), attention),
    "local_tile": Case(((32, 32), (32, 32)), transposed),
    "conditional": Case(((10, 10), (10, 10)), conditional, ("int32", "int32")),
}


def original(case: Case) -> tvm.IRModule:
    """A function of the same parameters; what it computes is of no matter to the reader."""
    dtypes = case.dtypes or ("float32",) * len(case.shapes)
    given = [
        te.placeholder(shape, dtype, name=f"in{number}")
        for number, (shape, dtype) in enumerate(zip(case.shapes[:-1], dtypes, strict=False))
    ]

    def element(*indices: object) -> object:
        first = [tensor[tuple(0 for _ in tensor.shape)].astype(dtypes[-1]) for tensor in given]
        return sum(first[1:], first[0])

    result = te.compute(case.shapes[-1], element, name="out")
    func = te.create_prim_func([*given, result]).with_attr("op_pattern", 8)
    return tvm.IRModule({"main": func})


def read(name: str) -> tvm.IRModule:
    script = (SCRIPTS / f"{name}.txt").read_text("utf-8")
    found = rewritten(script, original(CASES[name]))
    assert not isinstance(found, Verdict), str(found)
    return found


def test_every_honest_script_has_a_case() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_honest_rewrite_computes_what_numpy_does(name: str) -> None:
    mod = read(name)
    arrays = inputs(mod["main"])
    expected = CASES[name].expected(*arrays[:-1])
    np.testing.assert_allclose(run(mod, arrays), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_honest_rewrite_is_open_to_schedules_and_keeps_the_originals_attributes(name: str) -> None:
    mod, before = read(name), original(CASES[name])
    assert dict(mod["main"].attrs.items()) == dict(before["main"].attrs.items())
    assert [var.name_hint for var in mod.get_global_vars()] == ["main"]
    Schedule(mod).get_sblock("root")
