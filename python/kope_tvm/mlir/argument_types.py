# SPDX-License-Identifier: Apache-2.0
"""MLIR's types of a function's arguments."""

from __future__ import annotations

from kope_tvm.errors import ModelError
from kope_tvm.mlir.bindings import op_name, parse


def argument_types(text: str, name: str) -> tuple[str, ...]:
    """Of the only function in MLIR text; `name` stands for its file in errors."""
    module = parse(text, name)
    funcs = [op for op in module.body.operations if op_name(op) == "func.func"]
    if len(funcs) != 1:
        raise ModelError(f"{name}: {len(funcs)} functions; expected one")
    return tuple(str(each) for each in funcs[0].type.inputs)
