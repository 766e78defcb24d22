# SPDX-License-Identifier: Apache-2.0
"""What an operation says that cannot become TIR; whoever knows the file turns it into an error."""

from __future__ import annotations

from kope_tvm.mlir.bindings import ir, op_name


class UnimportableError(Exception):
    """An operation, and why it cannot be imported."""

    def __init__(self, op: ir.Operation | ir.OpView, reason: str) -> None:
        super().__init__(f"{op_name(op)}: {reason}")
        self.location = op.location


class NoTypeError(Exception):
    """An MLIR type that TIR has nothing for."""
