# SPDX-License-Identifier: Apache-2.0
"""What the compiler made of a function where it spends its time."""

from __future__ import annotations

from dataclasses import dataclass

LINE_CHARS = 200


@dataclass(frozen=True)
class HotLoop:
    """Instructions of one pass through the hottest innermost loop, counted by what they do."""

    function: str
    depth: int
    """Loops around its body; 0 where the function has no loop."""
    instructions: int
    fma: int
    """Multiply-adds and dot products, one an instruction."""
    arithmetic: int
    """Other arithmetic on vectors and floating point."""
    loads: int
    """Operands read from memory, whatever instruction reads them."""
    stores: int
    shuffles: int
    converts: int
    gathers: int
    """Loads and stores of vectors whose elements lie apart."""
    scalar: int
    branches: int
    spills: int
    """Loads and stores of the stack: what did not fit in registers, or was never kept there."""
    registers: str
    """Widest that arithmetic uses: `zmm`, `ymm`, `xmm`, `v m2 e32`, `scalar`; empty for none."""
    calls: tuple[str, ...]
    """Functions called, each once."""

    @property
    def line(self) -> str:
        """All of it in at most 200 characters."""
        where = "hot loop" if self.depth else "no loop"
        counts = (
            f"{self.instructions} instr",
            f"{self.fma} fma {self.registers}".rstrip() if self.fma else "no fma",
            _some(self.arithmetic, self._arithmetic),
            f"{self.loads} loads",
            f"{self.stores} stores",
            _some(self.shuffles, "shuffles"),
            _some(self.converts, "converts"),
            _some(self.gathers, "gathers/scatters"),
            f"{self.spills} spills",
        )
        called = f"calls {', '.join(self.calls)}" if self.calls else "no calls"
        text = f"{where}: {', '.join(count for count in counts if count)}; {called}"
        return text if len(text) <= LINE_CHARS else f"{text[: LINE_CHARS - 3]}..."

    @property
    def _arithmetic(self) -> str:
        return "other arithmetic" if self.fma else f"arithmetic {self.registers}"


def _some(count: int, what: str) -> str:
    return f"{count} {what}" if count else ""
