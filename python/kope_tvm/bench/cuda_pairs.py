# SPDX-License-Identifier: Apache-2.0
"""Twenty-four operators, each once for kope and once for torch: of one step, and of several."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te, tirx, topi

from kope_tvm.operators import parse_operator

_EPSILON = 1e-5


@dataclass(frozen=True)
class Pair:
    """The same function twice; torch's takes the module `torch.nn.functional` and the inputs."""

    name: str
    made: str | Callable[[], list[te.Tensor]]
    """An operator's spec, or its placeholders and its output."""
    torch: Callable[..., Any]
    num_steps: int = 1
    """1: one operator of a framework; 2: several that a compiler fuses."""

    def module(self) -> tvm.IRModule:
        """The untuned function, as `main`."""
        if isinstance(self.made, str):
            return parse_operator(self.made).tir()
        func = te.create_prim_func(self.made())
        return tvm.IRModule({"main": func.with_attr("tirx.noalias", True)})


def _half(name: str, *shape: int) -> te.Tensor:
    return te.placeholder(shape, "float16", name)


def _wide_product(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """Of float16, summed in float32 as tensor cores do; `right` is [n, k], as a linear layer's."""
    k = te.reduce_axis((0, left.shape[1]), "k")

    def cell(i: Any, j: Any) -> Any:
        return te.sum(left[i, k].astype("float32") * right[j, k].astype("float32"), axis=k)

    return te.compute((left.shape[0], right.shape[0]), cell, "product")


def _narrow(wide: te.Tensor) -> te.Tensor:
    return te.compute(wide.shape, lambda *at: wide[at].astype("float16"), "out")


def _linear_f16(rows: int, columns: int, depth: int) -> list[te.Tensor]:
    left, right = _half("A", rows, depth), _half("W", columns, depth)
    return [left, right, _narrow(_wide_product(left, right))]


def _linear_gelu_f16(rows: int, columns: int, depth: int) -> list[te.Tensor]:
    left, right = _half("A", rows, depth), _half("W", columns, depth)
    bias, product = _half("bias", columns), _wide_product(left, right)

    def cell(i: Any, j: Any) -> Any:
        at = product[i, j] + bias[j].astype("float32")
        root = tirx.const(1 / math.sqrt(2), "float32")
        return (at * (tirx.erf(at * root) + 1.0) * 0.5).astype("float16")

    return [left, right, bias, te.compute((rows, columns), cell, "out")]


def _mean_square_error(rows: int, columns: int) -> list[te.Tensor]:
    shape = (rows, columns)
    guess, truth = te.placeholder(shape, name="guess"), te.placeholder(shape, name="truth")
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
    gap = te.compute(shape, lambda a, b: guess[a, b] - truth[a, b], "gap")
    total = te.compute((1,), lambda _: te.sum(gap[i, j] * gap[i, j], axis=[i, j]), "total")
    mean = te.compute((1,), lambda at: total[at] / float(rows * columns), "mean")
    return [guess, truth, mean]


def _product_relu_residual(rows: int, columns: int, depth: int) -> list[te.Tensor]:
    left, right = (
        te.placeholder((rows, depth), name="A"),
        te.placeholder((depth, columns), name="B"),
    )
    bias, skip = te.placeholder((columns,), name="bias"), te.placeholder((rows, columns), name="R")
    k = te.reduce_axis((0, depth), "k")
    product = te.compute(
        (rows, columns), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), "product"
    )
    return [left, right, bias, skip, topi.add(topi.nn.relu(topi.add(product, bias)), skip)]


def _rms_norm(f: Any, x: Any, gamma: Any) -> Any:
    return x * (x * x).mean(-1, keepdim=True).add(_EPSILON).rsqrt() * gamma


def _heat(f: Any, x: Any) -> Any:
    padded = f.pad(x, (1, 1, 1, 1))
    near = padded[..., :-2, 1:-1] + padded[..., 2:, 1:-1] + padded[..., 1:-1, :-2]
    return 0.5 * x + 0.125 * (near + padded[..., 1:-1, 2:])


def _attention(f: Any, q: Any, k: Any, v: Any) -> Any:
    return f.scaled_dot_product_attention(q[None], k[None], v[None])[0]


PAIRS = (
    Pair("matmul", "op:matmul:m=1024,n=1024,k=1024", lambda f, a, b: a @ b),
    Pair("matmul_f16", lambda: _linear_f16(2048, 2048, 2048), lambda f, a, w: f.linear(a, w)),
    Pair("matmul_tall", "op:matmul:m=32768,n=64,k=128", lambda f, a, b: a @ b),
    Pair("matmul_odd", "op:matmul:m=1000,n=1000,k=500", lambda f, a, b: a @ b),
    Pair("matmul_small_k", "op:matmul:m=4096,n=4096,k=32", lambda f, a, b: a @ b),
    Pair("batch_matmul", "op:batch_matmul:b=128,m=128,n=64,k=128", lambda f, a, b: a @ b),
    Pair("matvec", "op:matmul:m=1,n=8192,k=8192", lambda f, a, b: a @ b),
    Pair("softmax", "op:softmax:m=4096,n=4096", lambda f, x: x.softmax(-1)),
    Pair("log_softmax", "op:log_softmax:m=4096,n=4096", lambda f, x: x.log_softmax(-1)),
    Pair(
        "layernorm",
        "op:layernorm:m=4096,n=4096",
        lambda f, x, g, b: f.layer_norm(x, x.shape[-1:], g, b, _EPSILON),
    ),
    Pair("rmsnorm", "op:rmsnorm:m=4096,n=4096", _rms_norm),
    Pair(
        "group_norm",
        "op:group_norm:n=8,ci=128,h=64,w=64,groups=32",
        lambda f, x, g, b: f.group_norm(x, 32, g, b, _EPSILON),
    ),
    Pair("gelu", "op:gelu:m=4096,n=4096", lambda f, x: f.gelu(x)),
    Pair("row_sum", "op:reduce_sum:m=4096,n=8192", lambda f, x: x.sum(-1)),
    Pair("column_mean", "op:column_mean:m=8192,n=4096", lambda f, x: x.mean(0)),
    Pair("cumsum", "op:cumsum:m=4096,n=2048", lambda f, x: x.cumsum(-1)),
    Pair(
        "mean_square_error",
        lambda: _mean_square_error(4096, 4096),
        lambda f, x, y: f.mse_loss(x, y).reshape(1),
    ),
    Pair(
        "depthwise",
        "op:depthwise_conv2d:n=16,ci=64,h=112,w=112,kernel=3,stride=1,pad=1",
        lambda f, x, w: f.conv2d(x, w, padding=1, groups=64),
    ),
    Pair(
        "max_pool",
        "op:max_pool2d:n=16,ci=64,h=112,w=112,kernel=3,stride=2,pad=1",
        lambda f, x: f.max_pool2d(x, 3, 2, 1),
    ),
    Pair("heat2d", "op:heat2d:h=4096,w=4096", _heat, 2),
    Pair(
        "conv_bias_relu",
        "op:conv2d_bias_relu:n=8,ci=64,h=56,w=56,co=64,kernel=3,stride=1,pad=1",
        lambda f, x, w, b: f.conv2d(x, w, b.reshape(-1), padding=1).relu(),
        2,
    ),
    Pair(
        "linear_gelu_f16",
        lambda: _linear_gelu_f16(2048, 4096, 512),
        lambda f, a, w, b: f.gelu(f.linear(a, w, b)),
        2,
    ),
    Pair(
        "matmul_relu_residual",
        lambda: _product_relu_residual(4096, 4096, 64),
        lambda f, a, b, c, r: (a @ b + c).relu() + r,
        2,
    ),
    Pair("attention", "op:attention:h=16,m=1024,n=1024,d=64", _attention, 2),
)
