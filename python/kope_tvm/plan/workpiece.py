# SPDX-License-Identifier: Apache-2.0
"""A schedule that steps are applied to, and the names by which they address its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir import SBlock, Schedule
from tvm.tirx import For, ForKind

from kope_tvm.plan.nest import REDUCE, Loop, block_names, blocks_under, loops_of
from kope_tvm.plan.step_error import StepError

_GPU_KINDS = frozenset({"cuda", "rocm", "metal", "vulkan", "opencl", "webgpu"})


@dataclass(frozen=True)
class _Named:
    name: str
    rv: Any
    sref: Any


class Workpiece:
    """Finds blocks and loops by the names that steps gave them, else by TVM's own."""

    def __init__(self, sch: Schedule) -> None:
        self.sch = sch
        self.target = tvm.target.Target.current(allow_none=True)
        self._blocks: dict[str, Any] = {}
        self._loops: list[_Named] = []

    @property
    def is_gpu(self) -> bool:
        """Whether threads can be bound."""
        return self.target is not None and self.target.kind.name in _GPU_KINDS

    @property
    def main(self) -> Any:
        """The function as it stands."""
        return self.sch.mod[self.sch.func_working_on or "main"]

    def block(self, name: str, argument: str = "block") -> Any:
        """The block called `name`, as a random variable of the schedule."""
        if name in self._blocks and self._is_alive(self._blocks[name]):
            return self._blocks[name]
        present = block_names(self.main)
        if present.count(name) == 1:
            self._blocks[name] = self.sch.get_sblock(name)
            return self._blocks[name]
        if name in present:
            reason = f"{present.count(name)} blocks are called {name!r}"
            raise StepError(argument, f"{reason}; call new ones by `into` to tell them apart")
        gone = "was inlined or replaced" if name in self._blocks else "does not exist"
        raise StepError(argument, f"block {name!r} {gone}; blocks: {', '.join(self.known_blocks)}")

    @property
    def known_blocks(self) -> tuple[str, ...]:
        """Every block by the name that a step should use."""
        given = {name: rv for name, rv in self._blocks.items() if self._is_alive(rv)}
        hints = {str(self.sch.get(rv).name_hint) for rv in given.values()}
        rest = [name for name in block_names(self.main) if name not in hints]
        return tuple(dict.fromkeys((*given, *rest)))

    def is_decomposed(self, block: Any) -> bool:
        """Whether it reduces into what another block initialises; TVM then refuses some steps."""
        stmt = self.sch.get(block)
        return stmt.init is None and any(int(one.iter_type) == REDUCE for one in stmt.iter_vars)

    def name_block(self, name: str | None, block: Any) -> None:
        """Let steps call a new block so, or by TVM's name where no other has it."""
        hint = str(self.sch.get(block).name_hint)
        if name is None and block_names(self.main).count(hint) > 1:
            self._blocks.pop(hint, None)
        else:
            self._blocks[name or hint] = block

    def check_new_block(self, name: str | None) -> None:
        """Raises StepError where another block is called so."""
        if name is not None and name in (*self.known_blocks, *block_names(self.main)):
            raise StepError("into", f"another block is called {name!r}; take another name")

    def check_alone(self, block: Any) -> None:
        """Raises StepError for a block that shares its loops or lies within another.

        TVM places copies and widens loops there without a look at the other blocks.
        """
        nest = self.loops(block)[:1]
        above = nest[0].sref.parent if nest else self.sch.get_sref(block).parent
        if above.parent is not None:
            raise StepError("block", "it lies within a block made of tiles: do this before that")
        under = [str(one.name_hint) for loop in nest for one in blocks_under(loop)]
        if len(under) > 1:
            raise StepError("block", f"{', '.join(under)} share its loops: do this before that")

    def check_no_vector_around(self, block: Any) -> None:
        """Raises StepError where a copy would be made anew in each lane of a vector."""
        at, is_within = self.sch.get_sref(block).parent, False
        while at is not None:
            is_within |= isinstance(at.stmt, SBlock)
            is_vector = isinstance(at.stmt, For) and int(at.stmt.kind) == ForKind.VECTORIZED
            if is_within and is_vector:
                name = str(at.stmt.loop_var.name)
                raise StepError("block", f"it lies within vectorized loop {name!r}")
            at = at.parent

    def loops(self, block: Any) -> tuple[Loop, ...]:
        """The loops around a block, outermost first."""
        self._loops = [one for one in self._loops if one.sref.stmt is not None]
        return loops_of(self.sch, block, [(one.name, one.sref) for one in self._loops])

    def loop(self, block: Any, name: str, argument: str = "loop") -> Loop:
        """The loop around `block` called `name`."""
        found = self.loops(block)
        for loop in found:
            if loop.name == name:
                return loop
        hinted = [loop for loop in found if loop.var == name]
        if len(hinted) == 1:
            return hinted[0]
        raise StepError(
            argument, f"no loop {name!r} in block {self._name(block)!r}; {_list(found)}"
        )

    def rv(self, block: Any, loop: Loop) -> Any:
        """The random variable of a loop; asks the schedule only for loops without one."""
        if (known := self._named(loop)) is not None:
            return known.rv
        for one, rv in zip(self.loops(block), self.sch.get_loops(block), strict=True):
            if self._named(one) is None:
                self._loops.append(_Named(one.name, rv, one.sref))
        found = self._named(loop)
        assert found is not None
        return found.rv

    def _named(self, loop: Loop) -> _Named | None:
        return next((one for one in self._loops if one.sref.same_as(loop.sref)), None)

    def name_loops(self, names: Sequence[str], loops: Sequence[Any]) -> None:
        """Let steps call new loops so."""
        named = zip(names, loops, strict=True)
        fresh = [_Named(name, rv, self.sch.get_sref(rv)) for name, rv in named]
        self._loops = [*fresh, *self._loops]

    def new_names(
        self,
        block: Any,
        given: Sequence[str] | None,
        default: Sequence[str],
        replaced: Sequence[Loop],
    ) -> list[str]:
        """Names of the loops that come in place of `replaced`; raises StepError for bad ones."""
        if given is None:
            return list(default)
        if len(given) != len(default):
            raise StepError("into", f"{len(given)} names for {len(default)} loops")
        going = {loop.name for loop in replaced}
        taken = {loop.name for loop in self.loops(block)} - going
        clash = next((name for name in given if name in taken), None)
        if clash:
            raise StepError("into", f"another loop of the block is called {clash!r}")
        return list(given)

    def _is_alive(self, rv: Any) -> bool:
        try:
            return self.sch.get_sref(rv) is not None
        except ValueError:
            return False

    def _name(self, block: Any) -> str:
        sref = self.sch.get_sref(block)
        for name, rv in self._blocks.items():
            if self._is_alive(rv) and self.sch.get_sref(rv).same_as(sref):
                return name
        return str(self.sch.get(block).name_hint)


def _list(loops: Sequence[Loop]) -> str:
    return f"its loops: {', '.join(f'{loop.name} {loop.extent}' for loop in loops) or 'none'}"
