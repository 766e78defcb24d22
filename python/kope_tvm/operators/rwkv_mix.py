# SPDX-License-Identifier: Apache-2.0
"""RWKV's time-mix: a matrix a head that each token reads, lets decay, and adds to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import te, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    """Receptance, key and value of `t` tokens, a decay and a bonus, and the state before them."""
    tokens = [TensorSpec(name, p.shape("t h d"), p.dtype) for name in ("R", "K", "V")]
    heads = [TensorSpec(name, p.shape("h d"), p.dtype) for name in ("W", "U")]
    return (*tokens, *heads, TensorSpec("S", p.shape("h d d"), p.dtype))


def _compute(
    p: Parameters,
    receptance: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    decay: te.Tensor,
    bonus: te.Tensor,
    state: te.Tensor,
) -> te.Tensor:
    """One stage reads the state and one updates it, a token."""
    out = []
    for t in range(p["t"]):
        out.append(_read(p, t, receptance, key, value, bonus, state))
        if t + 1 < p["t"]:
            state = _updated(p, t, key, value, decay, state)
    return topi.stack(out, axis=1)


def _read(
    p: Parameters,
    t: int,
    receptance: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    bonus: te.Tensor,
    state: te.Tensor,
) -> te.Tensor:
    i = te.reduce_axis((0, p["d"]), name="i")

    def element(h: Any, j: Any) -> Any:
        now = bonus[h, i] * key[t, h, i] * value[t, h, j]
        return te.sum(receptance[t, h, i] * (now + state[h, i, j]), axis=i)

    return te.compute(p.shape("h d"), element, name=f"read{t}")


def _updated(
    p: Parameters, t: int, key: te.Tensor, value: te.Tensor, decay: te.Tensor, state: te.Tensor
) -> te.Tensor:
    return te.compute(
        p.shape("h d d"),
        lambda h, i, j: decay[h, i] * state[h, i, j] + key[t, h, i] * value[t, h, j],
        name=f"state{t}",
    )


def _nodes(p: Parameters) -> tuple[Node, ...]:
    return tuple(_spelled(p))


def _spelled(p: Parameters) -> Iterator[Node]:
    yield Node("Constant", (), "last", {"value": np.array([2], np.int64)})
    yield Node("Constant", (), "row", {"value": np.array([1], np.int64)})
    yield Node("Unsqueeze", ("W", "last"), "decay")
    yield Node("Unsqueeze", ("U", "last"), "bonus")
    state = "S"
    for t in range(p["t"]):
        yield Node("Constant", (), f"t{t}", {"value": np.array(t, np.int64)})
        for name, axis in (("R", "row"), ("K", "last"), ("V", "row")):
            yield Node("Gather", (name, f"t{t}"), f"{name}{t}", {"axis": 0})
            yield Node("Unsqueeze", (f"{name}{t}", axis), f"{name}{t}.wide")
        yield Node("MatMul", (f"K{t}.wide", f"V{t}.wide"), f"now{t}")
        yield Node("Mul", ("bonus", f"now{t}"), f"more{t}")
        yield Node("Add", (f"more{t}", state), f"seen{t}")
        yield Node("MatMul", (f"R{t}.wide", f"seen{t}"), f"read{t}")
        if t + 1 < p["t"]:
            yield Node("Mul", ("decay", state), f"left{t}")
            yield Node("Add", (f"left{t}", f"now{t}"), f"S{t}")
            state = f"S{t}"
    yield Node("Concat", tuple(f"read{t}" for t in range(p["t"])), "out", {"axis": 1})


def _evaluate(
    p: Parameters,
    receptance: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    decay: np.ndarray,
    bonus: np.ndarray,
    state: np.ndarray,
) -> np.ndarray:
    out = []
    for t in range(p["t"]):
        now = key[t][:, :, None] * value[t][:, None, :]
        out.append(np.einsum("hi,hij->hj", receptance[t], bonus[:, :, None] * now + state))
        state = decay[:, :, None] * state + now
    return np.stack(out, axis=1)


RWKV_MIX = Operator(
    name="rwkv_mix",
    summary="Y[h, t] = R[t, h] @ (diag(U[h]) K V + S[h]), S = diag(W[h]) S + K[t, h] V[t, h]",
    sizes={"t": 4, "h": 32, "d": 64},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
)
OPERATORS = (RWKV_MIX,)
