# SPDX-License-Identifier: Apache-2.0
"""The operators that `op:NAME:k=v,...` names: one file a family, found by listing this folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from kope_tvm.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kope_tvm.operators.operator import BoundOperator, Operator

QUICK_SUITE: tuple[str, ...] = (
    "op:matmul:m=512,n=512,k=512,dtype=float32",
    "op:matmul:m=128,n=3072,k=768,dtype=float32",
    "op:batch_matmul:b=8,m=128,n=64,k=128,dtype=float32",
    "op:conv2d:n=1,ci=64,h=56,w=56,co=64,kernel=3,stride=1,pad=1,dtype=float32",
    "op:conv2d:n=1,ci=64,h=56,w=56,co=256,kernel=1,stride=1,pad=0,dtype=float32",
    "op:depthwise_conv2d:n=1,ci=32,h=112,w=112,kernel=3,stride=2,pad=1,dtype=float32",
    "op:softmax:m=512,n=1024,dtype=float32",
    "op:layernorm:m=512,n=768,dtype=float32",
    "op:rmsnorm:m=512,n=768,dtype=float32",
    "op:reduce_sum:m=1024,n=1024,dtype=float32",
    "op:gelu:m=512,n=3072,dtype=float32",
    "op:matmul_int8:m=512,n=512,k=512,dtype=int8",
)


@cache
def known_operators() -> Mapping[str, Operator]:
    """Every operator by name."""
    families = (import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__))
    found = [op for family in families for op in getattr(family, "OPERATORS", ())]
    return {op.name: op for op in sorted(found, key=lambda op: op.name)}


def parse_operator(spec: str) -> BoundOperator:
    """Read `op:NAME` or `op:NAME:k=v,...`; a parameter left out has its default."""
    _, _, rest = spec.partition(":")
    name, _, given = rest.partition(":")
    known = known_operators()
    if name not in known:
        raise ModelError(f"unknown operator {name!r}; known operators: {', '.join(known)}")
    operator = known[name]
    values: dict[str, int | str] = {}
    for item in filter(None, given.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value) or key in values:
            fault = "given twice" if key in values else "not of the form NAME=VALUE"
            raise ModelError(
                f"parameter {item!r} of operator {name!r} is {fault}; expected {operator.signature}"
            )
        values[key] = value
    return operator.bind(**values)
