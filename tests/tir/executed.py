# SPDX-License-Identifier: Apache-2.0
"""The passes over accesses, worked out by running a function's loops element by element.

It computes no values: a condition or an index that hangs on one is unknown, and what happens
under an unknown condition only may happen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from math import prod
from typing import Any

from tvm import ir, s_tir, tirx
from tvm_ffi import WalkResult, structural_walk
from valuation import Valuation, shifted, valuation_of

_PARALLEL = 1
_REDUCE = 2

Element = tuple[int, ...]
Step = Callable[[], None]


@dataclass
class Memory:
    """What became of one buffer."""

    name: str
    shape: tuple[int, ...]
    param: int
    written: set[int] = field(default_factory=set)
    maybe_written: set[int] = field(default_factory=set)
    anywhere: bool = False
    """Written at a place that is unknown."""
    uninitialised: list[int] = field(default_factory=list)
    outside: list[Element] = field(default_factory=list)
    writers: dict[int, dict[Any, int]] = field(default_factory=lambda: defaultdict(dict))
    races: set[str] = field(default_factory=set)
    loops: list[Any] | None = None
    """Around everything that uses it."""

    @property
    def coverage(self) -> str:
        """As `kope_tvm.static_checks.Coverage.written`."""
        num_elements = prod(self.shape)
        if len(self.written) == num_elements:
            return "yes"
        open_ended = self.anywhere or len(self.written | self.maybe_written) == num_elements
        return "unknown" if open_ended else "no"

    def use(self, loops: list[Any]) -> None:
        """Narrow down the loops around everything that uses it."""
        known = loops if self.loops is None else self.loops
        pairs = zip(known, loops, strict=False) if self.param < 0 else ()
        self.loops = [one for one, _ in takewhile(lambda pair: pair[0].same_as(pair[1]), pairs)]

    def element(self, place: int) -> Element:
        found: list[int] = []
        for extent in reversed(self.shape):
            place, index = divmod(place, extent)
            found.append(index)
        return tuple(reversed(found))


class Execution:
    """Runs a function once."""

    def __init__(self, func: Any) -> None:
        self.memories: dict[Any, Memory] = {}
        self._views: dict[Any, tuple[Any, list[Valuation]]] = {}
        self._values: dict[Any, Any] = {}
        self._maybe = False
        self._loops: list[tuple[Any, int]] = []
        for place, param in enumerate(func.params):
            self._memory(param, place)
        self._statement(func.body, [])()

    def param(self, place: int) -> Memory:
        """What became of a parameter."""
        return next(one for one in self.memories.values() if one.param == place)

    def _memory(self, buffer: Any, param: int = -1) -> Memory:
        if buffer not in self.memories:
            shape = tuple(int(extent) for extent in buffer.shape)
            self.memories[buffer] = Memory(str(buffer.name), shape, param)
        return self.memories[buffer]

    def _under(self, condition: Valuation, step: Step, *, negated: bool = False) -> None:
        """Run `step` where the condition holds; where that is unknown, it may happen."""
        value = condition(self._values)
        if value is not None and bool(value) == negated:
            return
        outer = self._maybe
        self._maybe = outer or value is None
        step()
        self._maybe = outer

    def _statement(self, node: Any, loops: list[Any]) -> Step:
        if isinstance(node, tirx.SeqStmt):
            return _all([self._statement(each, loops) for each in node.seq])
        if isinstance(node, tirx.For):
            return self._loop(node, loops)
        if isinstance(node, s_tir.SBlockRealize):
            return self._realize(node, loops)
        if isinstance(node, tirx.BufferStore):
            reads = self._reads(node.value, loops)
            return _all([reads, self._toucher(node.buffer, node.indices, loops, write=True)])
        if isinstance(node, tirx.IfThenElse):
            return self._branch(node, loops)
        if isinstance(node, tirx.Bind):
            return _all([self._reads(node.value, loops), self._bind(node.var, node.value)])
        if isinstance(node, tirx.Evaluate):
            return self._reads(node.value, loops)
        raise NotImplementedError(type(node).__name__)

    def _bind(self, var: Any, value: Any) -> Step:
        valuation = valuation_of(value)
        return lambda: self._values.__setitem__(var, valuation(self._values))

    def _loop(self, node: tirx.For, loops: list[Any]) -> Step:
        start, extent = int(node.min), int(node.extent)
        var, kind = node.loop_var, int(node.kind)
        body = self._statement(node.body, [*loops, var])

        def run() -> None:
            self._loops.append((var, kind))
            for value in range(start, start + extent):
                self._values[var] = value
                body()
            self._loops.pop()

        return run

    def _realize(self, node: s_tir.SBlockRealize, loops: list[Any]) -> Step:
        block = node.block
        pairs = list(zip(block.iter_vars, node.iter_values, strict=True))
        binds = _all([self._bind(axis.var, binding) for axis, binding in pairs])
        firsts = [
            (axis.var, int(axis.dom.min)) for axis, _ in pairs if int(axis.iter_type) == _REDUCE
        ]
        for match in block.match_buffers:
            mins = [valuation_of(one.min) for one in match.source.region]
            self._views[match.buffer] = (match.source.source, mins)
        init = self._statement(block.init, loops) if block.init is not None else None
        body, predicate = self._statement(block.body, loops), valuation_of(node.predicate)

        def enter() -> None:
            if init and all(self._values[var] in (None, first) for var, first in firsts):
                init()
            body()

        return _all([binds, lambda: self._under(predicate, enter)])

    def _branch(self, node: tirx.IfThenElse, loops: list[Any]) -> Step:
        bodies = ((node.then_case, False), (node.else_case, True))
        steps = [
            (self._statement(one, loops), negated) for one, negated in bodies if one is not None
        ]
        return _all([self._reads(node.condition, loops), self._chosen(node.condition, steps)])

    def _chosen(self, condition: Any, steps: list[tuple[Step, bool]]) -> Step:
        decide = valuation_of(condition)
        return _all(
            [partial(self._under, decide, step, negated=negated) for step, negated in steps]
        )

    def _reads(self, expr: Any, loops: list[Any]) -> Step:
        """What an expression loads."""
        steps: list[Step] = []

        def visit(node: Any) -> WalkResult:
            if tirx.buffer.is_buffer_var(node):
                self._memory(node).anywhere = True  # its address is taken
            elif isinstance(node, ir.TensorLoad):
                steps.extend(self._reads(index, loops) for index in node.indices)
                steps.append(self._toucher(node.source, node.indices, loops, write=False))
            elif isinstance(node, tirx.Select):
                parts = (node.condition, node.true_value, node.false_value)
                steps.append(self._choice(parts, loops))
            elif isinstance(node, ir.Call) and str(node.op.name) == "prim.if_then_else":
                steps.append(self._choice(tuple(node.args), loops))
            else:
                return WalkResult.ADVANCE
            return WalkResult.SKIP

        if not isinstance(expr, tirx.IntImm | tirx.FloatImm):
            structural_walk(expr, visit, order="pre")
        return _all(steps)

    def _choice(self, parts: tuple[Any, ...], loops: list[Any]) -> Step:
        condition, if_true, if_false = parts
        values = [(self._reads(if_true, loops), False), (self._reads(if_false, loops), True)]
        return _all([self._reads(condition, loops), self._chosen(condition, values)])

    def _toucher(self, buffer: Any, indices: Any, loops: list[Any], *, write: bool) -> Step:
        valuations = [valuation_of(index) for index in indices]
        is_vector = any(isinstance(index, tirx.Ramp) for index in indices)
        mins: list[list[Valuation]] = []
        while buffer in self._views:
            buffer, low = self._views[buffer]
            mins.append(low)
        memory = self._memory(buffer)
        memory.use(loops)
        return partial(self._touch, memory, valuations, mins, is_vector=is_vector, write=write)

    def _touch(
        self,
        memory: Memory,
        valuations: list[Valuation],
        mins: list[list[Valuation]],
        *,
        is_vector: bool,
        write: bool,
    ) -> None:
        values = [valuation(self._values) for valuation in valuations]
        for region in mins:
            lows = [valuation(self._values) for valuation in region]
            skipped = len(lows) - len(values)
            values = [*lows[:skipped], *map(shifted, lows[skipped:], values)]
        if any(value is None for value in values):
            memory.anywhere |= write
            return
        num_lanes = max((len(value) for value in values if isinstance(value, range)), default=1)
        for lane in range(num_lanes):
            point = tuple(one[lane] if isinstance(one, range) else one for one in values)
            self._touch_element(memory, point, is_vector=is_vector, write=write)

    def _touch_element(
        self, memory: Memory, point: Element, *, is_vector: bool, write: bool
    ) -> None:
        place = 0
        for index, extent in zip(point, memory.shape, strict=True):
            place = place * extent + index
        inside = all(0 <= i < extent for i, extent in zip(point, memory.shape, strict=True))
        if is_vector:
            inside = 0 <= place < prod(memory.shape)
        if not inside:
            if not self._maybe:
                memory.outside.append(point)
        elif not write:
            known = place in memory.written or place in memory.maybe_written or memory.anywhere
            if not known and not self._maybe:
                memory.uninitialised.append(place)
        else:
            (memory.maybe_written if self._maybe else memory.written).add(place)
            self._note_writer(memory, place)

    def _note_writer(self, memory: Memory, place: int) -> None:
        for var, kind in self._loops[len(memory.loops or ()) :]:
            if kind == _PARALLEL:
                now = self._values[var]
                if memory.writers[place].setdefault(var, now) != now:
                    memory.races.add(str(var.name))


def _all(steps: Sequence[Step]) -> Step:
    def run() -> None:
        for step in steps:
            step()

    return steps[0] if len(steps) == 1 else run
