# SPDX-License-Identifier: Apache-2.0
"""How much faster functions became, both means side by side: either alone can mislead."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Gains:
    """The gains of some functions over the untuned ones."""

    optimised: tuple[float, ...]
    """Of the functions that are no longer as the compiler made them."""
    num_functions: int
    """All of them; the others fell back."""

    @property
    def num_optimised(self) -> int:
        return len(self.optimised)

    @property
    def of_all(self) -> float:
        """The geometric mean, a fallback counted as 1.0."""
        return prod(self.optimised) ** (1 / max(1, self.num_functions))

    @property
    def of_optimised(self) -> float:
        """The geometric mean of the optimised alone; 1.0 where all fell back."""
        return prod(self.optimised) ** (1 / max(1, self.num_optimised))

    def __str__(self) -> str:
        return (
            f"{self.of_all:.2f}x of all {self.num_functions}, a fallback counted as 1.0; "
            f"{self.of_optimised:.2f}x of the optimised, "
            f"{self.num_optimised} of {self.num_functions}"
        )
