# SPDX-License-Identifier: Apache-2.0
"""What may become "best": one gate a file, found by listing this folder, cheap before dear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kope_tvm import registry

if TYPE_CHECKING:
    from kope_tvm.seam import Gate


def load_gates() -> tuple[Gate, ...]:
    """Every gate, cheap before dear."""
    gates = [registry.load("gates", name)() for name in registry.names("gates")]
    return tuple(sorted(gates, key=lambda gate: gate.cost))
