# SPDX-License-Identifier: Apache-2.0
"""What `optimize` returns: called like the module it was made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table

from kope_tvm.errors import UsageError


@dataclass(frozen=True)
class Part:
    """One part of the module and who computes it."""

    name: str
    operators: tuple[str, ...]
    by: str
    """`kope` or `torch`."""
    gain: float
    """How many times as fast as torch's ours was, used or not; 0 where there is none."""
    reason: str = ""
    """Why torch's stays."""


class Flat(torch.nn.Module):
    """A module as a function of the tensors of its arguments, which returns tensors."""

    def __init__(self, module: Any, in_spec: Any) -> None:
        super().__init__()
        self.module = module
        self._in_spec = in_spec

    def forward(self, *flat: Any) -> Any:
        """The outputs' tensors, in order."""
        args, _ = torch.utils._pytree.tree_unflatten(flat, self._in_spec)
        return tuple(torch.utils._pytree.tree_leaves(self.module(*args)))


class Optimized:
    """A function of tensors: each part is torch's or TVM's, whichever was right and faster.

    Parameters are those of the moment at which it was made, and no gradient goes through it.
    """

    def __init__(
        self,
        graph: Any,
        call_spec: Any,
        parts: tuple[Part, ...],
        place: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """`graph` takes the arguments flat where there is a `call_spec`; `place` is where."""
        self.parts = parts
        self.gain = 1.0
        """How many times as fast as the module it is as a whole; 1.0 where it is the module."""
        self._graph = graph
        self._call_spec = call_spec
        self._place = place

    def __call__(self, *args: Any) -> Any:
        """What the module returns; raises UsageError for other shapes than the example's."""
        if self._call_spec is None:
            return self.run(*args)
        flat, spec = torch.utils._pytree.tree_flatten((args, {}))
        if spec != self._call_spec.in_spec:
            raise UsageError(f"arguments {spec}; it was optimized for {self._call_spec.in_spec}")
        found = self.run(*flat)
        leaves = [*found] if isinstance(found, tuple | list) else [found]
        return torch.utils._pytree.tree_unflatten(leaves, self._call_spec.out_spec)

    def run(self, *flat: Any) -> Any:
        """What the graph makes of the arguments' tensors."""
        with torch.no_grad(), self._place():
            return self._graph(*flat)

    @property
    def by_kope(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.by == "kope")

    def table(self) -> Table:
        """A part a line."""
        shown = Table(title=f"{len(self.by_kope)} of {len(self.parts)} parts by kope")
        for column in ("part", "operators", "by", "gain", "why"):
            shown.add_column(column)
        for part in self.parts:
            gain = f"{part.gain:.2f}" if part.gain else "-"
            shown.add_row(part.name, ", ".join(part.operators), part.by, gain, part.reason)
        return shown
