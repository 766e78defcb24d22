# SPDX-License-Identifier: Apache-2.0
"""MLIR's Python bindings, met here only; importing this without them says what to install."""

from __future__ import annotations

from kope_tvm.errors import ModelError, UsageError

try:
    from mlir.dialects import arith, linalg, math
    from mlir.dialects.transform import interpreter

    from mlir import execution_engine, ir, passmanager
except ImportError as error:
    raise UsageError(
        f"MLIR's Python bindings are missing ({error}); pip install 'kope-tvm[mlir]'"
    ) from error

__all__ = [
    "arith",
    "execution_engine",
    "interpreter",
    "ir",
    "linalg",
    "math",
    "parse",
    "passmanager",
    "place",
]


def parse(text: str, name: str) -> ir.Module:
    """A verified module in a context of its own.

    Raises ModelError where it is none; `name` stands for its file there.
    """
    with ir.Context():
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            told = error.error_diagnostics
            where = place(told[0].location, name) if told else name
            what = told[0].message if told else str(error)
            raise ModelError(f"{where}: not MLIR: {what}") from error


def place(location: ir.Location, name: str) -> str:
    """`name:line:column`, as compilers spell it; `name` alone where MLIR knows no more."""
    return f"{name}:{location.start_line}:{location.start_col}" if location.is_a_file() else name


def op_name(op: ir.Operation | ir.OpView) -> str:
    """What operation it is; a function's own `name` is its symbol."""
    return str(op.operation.name)


def libraries_dir() -> str:
    """Where the bindings' own libraries lie."""
    from mlir import _mlir_libs

    return str(_mlir_libs.__path__[0])
