# SPDX-License-Identifier: Apache-2.0
"""The stages of attention in parts (`rewrite/key_parts.py`), found by what reads what."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.schedules.analysis import Analysis, Block
from kope_tvm.schedules.operands import is_multiply_add


@dataclass(frozen=True)
class Parts:
    """The blocks by what they make."""

    dots: Block
    maxima: Block
    exps: Block
    sums: Block
    out: Block
    after: tuple[Block, ...]
    """What weighs the parts, and the last block."""

    @property
    def rows(self) -> int:
        return self.dots.iters[1].extent

    @property
    def depth(self) -> int:
        return self.dots.iters[3].extent

    @property
    def keys(self) -> int:
        """Of a part."""
        return self.exps.iters[3].extent

    @property
    def columns(self) -> int:
        return self.out.iters[3].extent


def find_parts(info: Analysis) -> Parts | None:
    """By what reads what: two products, and between them a row's maximum and exponentials."""
    dots = next((block for block in info.blocks if is_multiply_add(block)), None)
    readers = info.consumers(dots) if dots else ()
    if dots is None or [block.is_reduction for block in readers] != [True, False]:
        return None
    maxima, exps = readers
    weighed = info.consumers(exps)
    if [is_multiply_add(block) for block in weighed] != [False, True]:
        return None
    sums, out = weighed
    known = (dots, maxima, exps, sums, out)
    after = tuple(block for block in info.blocks if block not in known)
    found = Parts(*known, after)
    return found if info.blocks[:5] == known and _has_plain_axes(found) else None


def _has_plain_axes(parts: Parts) -> bool:
    """A batch, rows, and what is added up; parts of keys or columns between."""
    kinds = [(parts.dots, "SSSR"), (parts.maxima, "SSSR"), (parts.exps, "SSSS")]
    kinds += [(parts.sums, "SSSR"), (parts.out, "SSSSR")]
    alike = all("".join(it.kind for it in block.iters) == wanted for block, wanted in kinds)
    return alike and parts.exps.iters[2].extent * parts.keys == parts.dots.iters[2].extent
