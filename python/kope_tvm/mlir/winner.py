# SPDX-License-Identifier: Apache-2.0
"""A tuned PrimFunc's loops said in the transform dialect, over the operations that it came from.

Every loop that makes the tile of a nest's last operation smaller is one step; what the nest
computes within it is fused, dealt with, and only then the last operation is tiled on. What is
left when a tile fits the registers becomes vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from tvm import tirx

from kope_tvm.mlir.nest import Loop, Stage, nests
from kope_tvm.mlir.packs import Packs
from kope_tvm.mlir.place import Place, smaller
from kope_tvm.mlir.rests import PLANES, Rests
from kope_tvm.mlir.script_text import Handle, ScriptText
from kope_tvm.mlir.source import Source
from kope_tvm.mlir.tuned_op import Sizes, TunedOp, partials_of
from kope_tvm.mlir.unsaid import unsaid

_ACCUMULATORS = 24
"""Vector registers that a tile may fill: what is left of 32 holds its operands."""
_MOST_UNROLLED = 8
"""How much of a reduction one vector operation covers; of a product's one step, whose operands
MLIR would transpose otherwise.
"""
_MOST_TURNS = 16
"""Of a loop that is unrolled."""
_IN_FLIGHT = 4
"""Vectors of an operation that only moves elements."""
_NO_VECTORS = ("tensor.", "linalg.pooling", "linalg.conv", "linalg.softmax")
"""What MLIR's vectoriser does not take; `PLANES` is taken after its decomposition."""


@dataclass
class Winner:
    """Writes one function's part of a script."""

    func: tirx.PrimFunc
    sources: Mapping[str, Source]
    lanes: int
    """Elements in a vector register."""
    text: ScriptText
    left_out: list[str] = field(default_factory=list)
    """What of the schedule is not said."""
    left_plain: frozenset[str] = frozenset()
    """Blocks that are tiled and not made vectors."""
    has_masks: bool = True
    """Whether the machine's vectors have; without them a tile that leaves a rest costs more than it
    gains.
    """
    packs: bool = True
    """Whether operands are packed where the schedule packs them."""
    _packs: Packs = field(init=False)
    _done: set[str] = field(default_factory=set)
    """What needs no more steps: partial results are joined in more loops than one."""
    _unrolled: list[tuple[Handle, int]] = field(default_factory=list)
    """Loops that are to be gone in the end, the outermost first, and how often they turn."""

    @cached_property
    def _nests(self) -> tuple[Loop | Stage, ...]:
        return nests(self.func)

    @property
    def _rests(self) -> Rests:
        return Rests(self.text, self.left_out, self.has_masks)

    def write(self, symbol: str) -> None:
        """Everything that the schedule does to the function of this name."""
        where = self.text.function(symbol)
        self._packs = Packs(self.func, self.text, where, self.packs)
        by_op: dict[str, list[tuple[int, str]]] = {}
        for name, source in self.sources.items():
            by_op.setdefault(source.op, []).append((source.which, name))
        for op, found in by_op.items():
            self.text.name_operations(where, op, dict(found))
        for nest in self._nests:
            members = self._members(nest) if isinstance(nest, Loop) else []
            if members and isinstance(nest, Loop):
                root = members[-1]
                handle = self.text.match(root.name, where)
                for part, extents in self._rests.parts(nest, root, handle):
                    place = Place(part, where, extents)
                    self._descend(nest, root, self._packs.noted(self._nests, root, place))
        told = unsaid(self._stages(), self.sources, self._packs.said)
        self.left_out += [text for text in told if text not in self.left_out]
        for loop, turns in reversed(self._unrolled):
            self.text.unroll(loop, turns)
        if any(map(self._takes_vectors, self.sources)):
            self.text.hoist(where)
        self.text.clean(where)

    def _members(self, loop: Loop) -> list[TunedOp]:
        """The operations that are computed in a loop, in program order."""
        stages = list(loop.stages())
        found = (self._computed(name, stages) for name in self.sources)
        return [each for each in found if each is not None]

    def _computed(self, name: str, stages: Sequence[Stage]) -> TunedOp | None:
        """Where an operation reads what it reads: partial results come before they are joined."""
        source = self.sources[name]
        for block in (f"{name}_rf", f"{name}_update", name):
            stage = next((each for each in stages if each.block == block), None)
            if stage is not None:
                is_partial = block == f"{name}_rf"
                kept = self._spatial_names(name) if is_partial else frozenset()
                partials = partials_of(stage, kept) if is_partial else 0
                if partials or len(stage.iters) == len(source.dims):
                    return TunedOp(name, source, stage, partials, kept)
        return None

    def _spatial_names(self, name: str) -> frozenset[str]:
        """Of the operation's own iterators, as the block that joins partial results has them."""
        own = (stage for stage in self._stages() if stage.block in (name, f"{name}_update"))
        return frozenset(each.name for stage in own for each in stage.iters if each.is_spatial)

    def _stages(self) -> Iterator[Stage]:
        """All blocks of the function, in order."""
        for nest in self._nests:
            yield from nest.stages() if isinstance(nest, Loop) else (nest,)

    def _descend(self, loop: Loop, root: TunedOp, place: Place) -> None:
        """Tile an operation by its loops, and on the way what they compute for it."""
        self._done.add(root.name)
        path = loop.path(root.stage)
        for depth, each in enumerate(path):
            if self._fits(root, place.sizes):
                break
            place = self._tiled(root, place, root.sizes(path[depth + 1 :]), each.kind)
            place = self._packs.noted(each.body, root, place)
            self._children(each, root, place)
        self._leaf(root, place)

    def _children(self, loop: Loop, root: TunedOp, place: Place) -> None:
        for child in loop.body:
            members = self._members(child) if isinstance(child, Loop) else []
            last = members[-1] if members else root
            if isinstance(child, Loop) and last.name not in self._done:
                handle = self.text.match(last.name, place.region)
                sizes = last.sizes((child, *child.path(last.stage)[1:]))
                self._descend(child, last, Place(handle, place.region, sizes))

    def _tiled(self, root: TunedOp, place: Place, sizes: Sizes, kind: str) -> Place:
        sizes = self._rests.without(root, place.sizes, smaller(sizes, place.sizes))
        step = [new if new < old else 0 for new, old in zip(sizes, place.sizes, strict=True)]
        if not any(step):
            return place
        if any(step[dim] for dim in root.source.reduced):
            place = self._before_reduction(root, place)
            step = [new if new < old else 0 for new, old in zip(sizes, place.sizes, strict=True)]
            sizes = smaller(sizes, place.sizes)
        is_parallel = kind == "parallel" and not any(step[dim] for dim in root.source.reduced)
        handle, region = self._cut(place, step, is_parallel=is_parallel)
        even = all(old % new == 0 for new, old in zip(sizes, place.sizes, strict=True))
        turns = [old // new for new, old in zip(step, place.sizes, strict=True) if new]
        if kind == "unrolled" and even and len(turns) == 1 and turns[0] <= _MOST_TURNS:
            self._unrolled.append((region, turns[0]))
        return replace(
            place,
            handle=handle,
            region=region,
            sizes=sizes,
            is_even=place.is_even and even,
            loops=0 if is_parallel else place.loops + len(turns),
            copies=() if is_parallel else place.copies,  # MLIR takes no copy out of `forall`.
        )

    def _cut(
        self, place: Place, step: Sequence[int], *, is_parallel: bool = False
    ) -> tuple[Handle, Handle]:
        """What a padded operation reads is there already, and its sums must not start anew."""
        if place.is_padded:
            return self.text.tile(place.handle, step)
        return self.text.fuse(place.handle, step, is_parallel=is_parallel)

    def _before_reduction(self, root: TunedOp, place: Place) -> Place:
        """A reduction's start is set before its loop; a convolution's rows too are split there."""
        if place.fills_done:
            return place
        if root.source.op in PLANES:
            row = PLANES[root.source.op][0]
            sizes = tuple(1 if dim == row else size for dim, size in enumerate(place.sizes))
            place = self._split(place, sizes)
        self._fills(root, place)
        place = replace(place, fills_done=True)
        if root.source.op not in PLANES or place.is_even or not self._takes_vectors(root.name):
            return place
        padded = self.text.pad(place.handle, place.sizes)  # No masks for windows.
        return replace(place, handle=padded, is_even=True, is_padded=True)

    def _split(self, place: Place, sizes: Sizes) -> Place:
        step = [new if new < old else 0 for new, old in zip(sizes, place.sizes, strict=True)]
        if not any(step):
            return place
        handle, region = self._cut(place, step)
        return replace(place, handle=handle, region=region, sizes=sizes)

    def _fills(self, root: TunedOp, place: Place) -> None:
        """The zeros as vectors: as an operation the next loop would bring them along into it."""
        out = [place.sizes[dim] for dim in root.source.dims if dim in root.source.spatial]
        handle = self.text.match_op("linalg.fill", place.region)
        if prod(out) <= self.lanes * _ACCUMULATORS:
            self.text.vectorize(handle, () if place.is_even else out)
            return
        step = [1] * (len(out) - 1) + [min(out[-1], self.lanes * _IN_FLIGHT)]
        is_even = place.is_even and out[-1] % step[-1] == 0
        tiled, _ = self.text.fuse(handle, step)
        self.text.vectorize(tiled, () if is_even else step)

    def _fits(self, root: TunedOp, sizes: Sizes) -> bool:
        source = root.source
        if source.op.startswith("tensor.") and sizes != tuple(source.extents):
            return True  # MLIR 22 aborts on the stores of a pad that is tiled along two dimensions.
        if root.partials:
            return source.spatial_size(sizes) <= 1
        vectors = _ACCUMULATORS if source.reduced else _IN_FLIGHT
        is_small = source.spatial_size(sizes) <= self.lanes * vectors
        is_product = len(source.reads) > 1 and source.op not in PLANES
        return is_small and source.reduced_size(sizes) <= (1 if is_product else _MOST_UNROLLED)

    def _leaf(self, root: TunedOp, place: Place) -> None:
        """What is left of an operation, as vectors."""
        source = root.source
        if root.partials:
            self._partial_results(root, place)
            return
        if source.reduced and not place.fills_done:
            place = self._before_reduction(root, place)
        if source.op in PLANES:
            place = self._one_row(root, place)
        if not self._takes_vectors(root.name):
            self.left_out.append(f"{root.name}: vectors; MLIR has none for {source.op} here")
        else:
            place = self._packs.written(root, place)
            self.text.vectorize(place.handle, () if place.is_even else place.sizes)
        self._inlined(place)

    def _takes_vectors(self, name: str) -> bool:
        op = self.sources[name].op
        return name not in self.left_plain and (op in PLANES or not op.startswith(_NO_VECTORS))

    def _one_row(self, root: TunedOp, place: Place) -> Place:
        planes = PLANES[root.source.op]
        width = planes[1] + 1
        ones = {*planes, width}
        sizes = tuple(1 if dim in ones else size for dim, size in enumerate(place.sizes))
        place = self._split(place, sizes)
        if not self._takes_vectors(root.name):
            return place
        return replace(place, handle=self.text.decompose(place.handle))

    def _partial_results(self, root: TunedOp, place: Place) -> None:
        """A reduction that keeps several results, joined at its end."""
        (last,) = root.source.reduced[-1:]
        step = [root.partials if dim == last else 0 for dim in range(len(place.sizes))]
        order = list(self.sources)
        for name in self._inlined_names():
            if name not in self._done and order.index(name) < order.index(root.name):
                self._done.add(name)
                self._spread_out(name, place)
        parts = self.text.tile_reduction(place.handle, step)
        even = place.is_even and place.sizes[last] % root.partials == 0
        sizes = tuple(step[d] or size for d, size in enumerate(place.sizes))
        if root.name in self.left_plain:
            return
        self.text.vectorize(parts.start)
        self.text.vectorize(parts.body, () if even else sizes)
        self.text.vectorize(parts.end)
        self.text.vectorize(self.text.match_op("linalg.fill", place.region))

    def _inlined_names(self) -> Iterator[str]:
        """Operations that the schedule computes where they are used."""
        stages = [stage.block for stage in self._stages()]
        for name in self.sources:
            if not {name, f"{name}_update", f"{name}_rf"} & set(stages):
                yield name

    def _inlined(self, place: Place) -> None:
        for name in self._inlined_names():
            if place.is_even and self._takes_vectors(name):
                self.text.vectorize(self.text.match(name, place.region))

    def _spread_out(self, name: str, place: Place) -> None:
        """An operation for a whole row that partial results read by parts."""
        extents = self.sources[name].extents
        width = self.lanes * _IN_FLIGHT
        if self.sources[name].reduced or extents[-1] % width or not self._takes_vectors(name):
            return
        handle = self.text.match(name, place.region)
        tiled, _ = self.text.fuse(handle, [1] * (len(extents) - 1) + [width])
        self.text.vectorize(tiled)
