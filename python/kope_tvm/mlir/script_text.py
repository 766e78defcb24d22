# SPDX-License-Identifier: Apache-2.0
"""The text of a transform script, a step a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Handle = str
"""An SSA name of `!transform.any_op`."""
_ANY = "!transform.any_op"
_MARK = "kope"


@dataclass(frozen=True)
class Parts:
    """What a reduction into partial results consists of."""

    start: Handle
    body: Handle
    end: Handle


@dataclass(frozen=True)
class Pack:
    """One operand of float32 that is copied ahead of the loops that read it."""

    operand: int
    num_operands: int
    num_dims: int
    loops: int
    """How many loops around the operation the copy leaves."""


class ScriptText:
    """Collects the lines of `@__transform_main`."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def module(self, header: Sequence[str]) -> str:
        """The script as a file, its header as comments."""
        body = "\n".join(f"    {line}" for line in self._lines)
        return "\n".join(
            [
                *(f"// {line}".rstrip() for line in header),
                "module attributes {transform.with_named_sequence} {",
                "  transform.named_sequence @__transform_main("
                f"%root: {_ANY} {{transform.readonly}}) {{",
                *([body] if body else []),
                "    transform.yield",
                "  }",
                "}",
                "",
            ]
        )

    def comment(self, text: str) -> None:
        """A line for the reader."""
        self._lines.append(f"// {text}")

    def function(self, symbol: str) -> Handle:
        """The function of this name."""
        return self._new(
            "func",
            f'transform.structured.match ops{{["func.func"]}} '
            f'attributes{{sym_name = "{symbol}"}} in %root : ({_ANY}) -> {_ANY}',
        )

    def name_operations(self, where: Handle, op: str, names: Mapping[int, str]) -> None:
        """Mark the operations of one kind, by their place among them, so that they stay known."""
        found = self.match_op(op, where)
        each = [found]
        if len(names) > 1:
            each = [self._handle("op") for _ in names]
            kinds = ", ".join([_ANY] * len(names))
            self._lines.append(
                f"{', '.join(each)} = transform.split_handle {found} : ({_ANY}) -> ({kinds})"
            )
        for handle, (_, name) in zip(each, sorted(names.items()), strict=True):
            self._lines.append(f'transform.annotate {handle} "{_MARK}.{name}" : {_ANY}')

    def match(self, name: str, where: Handle) -> Handle:
        """The operation that was given this name, or the tile of it that is there."""
        return self._new(
            "op",
            f"transform.structured.match attributes{{{_MARK}.{name}}} in {where} "
            f": ({_ANY}) -> {_ANY}",
        )

    def match_op(self, op: str, where: Handle) -> Handle:
        """All operations of a kind."""
        return self._new(
            "ops", f'transform.structured.match ops{{["{op}"]}} in {where} : ({_ANY}) -> {_ANY}'
        )

    def fuse(
        self, handle: Handle, sizes: Sequence[int], *, is_parallel: bool = False
    ) -> tuple[Handle, Handle]:
        """Tile an operation and bring along what it reads; the tile, and the innermost new loop."""
        loops = 1 if is_parallel else sum(1 for size in sizes if size)
        tiled, made = self._handle("tile"), [self._handle("loop") for _ in range(loops)]
        kinds = ", ".join([_ANY] * (1 + loops))
        flag = " {use_forall}" if is_parallel else ""
        self._lines.append(
            f"{', '.join([tiled, *made])} = transform.structured.fuse {handle} "
            f"tile_sizes {list(sizes)}{flag} : ({_ANY}) -> ({kinds})"
        )
        return tiled, made[-1]

    def split(self, handle: Handle, dim: int, size: int) -> tuple[Handle, Handle]:
        """Two of an operation: its first `size` along `dim`, and the rest."""
        both, first, rest = (self._handle(name) for name in ("parts", "whole", "rest"))
        self._lines += [
            f"{both} = transform.structured.split {handle} after {size} "
            f"{{dimension = {dim}}} : {_ANY}",
            f"{first}, {rest} = transform.split_handle {both} : ({_ANY}) -> ({_ANY}, {_ANY})",
        ]
        return first, rest

    def tile(self, handle: Handle, sizes: Sequence[int]) -> tuple[Handle, Handle]:
        """Tile an operation alone; the tile, and the innermost new loop."""
        made = [self._handle("loop") for size in sizes if size]
        tiled = self._handle("tile")
        kinds = ", ".join([_ANY] * (1 + len(made)))
        self._lines.append(
            f"{', '.join([tiled, *made])} = transform.structured.tile_using_for {handle} "
            f"tile_sizes {list(sizes)} : ({_ANY}) -> ({kinds})"
        )
        return tiled, made[-1]

    def pad(self, handle: Handle, sizes: Sequence[int]) -> Handle:
        """Zeros around what an operation reads and writes, up to these sizes of its dimensions."""
        padded, around = self._handle("padded"), self._handle("zeros")
        self._lines.append(
            f"{padded}, {around} = transform.structured.pad_tiling_interface {handle} "
            f"to padding_sizes {list(sizes)} : ({_ANY}) -> ({_ANY}, {_ANY})"
        )
        return padded

    def pack(self, handle: Handle, where: Handle, pack: Pack) -> Handle:
        """Copy what a tile reads of one operand out of some loops, side by side."""
        padded, around, back = (self._handle(name) for name in ("packed", "copy", "back"))
        zeros = ", ".join(["0.0 : f32"] * pack.num_operands)
        flags = [int(at == pack.operand) for at in range(pack.num_operands)]
        dims = list(range(pack.num_dims))
        self._lines += [
            f"transform.apply_patterns to {where} {{",
            "  transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice",
            f"}} : {_ANY}",
            f"{padded}, {around}, {back} = transform.structured.pad {handle} "
            f"{{padding_values = [{zeros}], padding_dimensions = {dims}, nofold_flags = {flags}, "
            f'copy_back_op = "none"}} : ({_ANY}) -> ({_ANY}, {_ANY}, {_ANY})',
        ]
        copy = self._new(
            "copy",
            f"transform.get_producer_of_operand {padded}[{pack.operand}] : ({_ANY}) -> {_ANY}",
        )
        self._new(
            "copied",
            f"transform.structured.hoist_pad {copy} by {pack.loops} loops : ({_ANY}) -> {_ANY}",
        )
        return padded

    def tile_reduction(self, handle: Handle, sizes: Sequence[int]) -> Parts:
        """Keep as many partial results as the sizes say."""
        found = self._handle("part")
        kinds = ", ".join([_ANY] * 4)
        self._lines.append(
            f"{found}:4 = transform.structured.tile_reduction_using_for {handle} "
            f"by tile_sizes = {list(sizes)} : ({_ANY}) -> ({kinds})"
        )
        return Parts(f"{found}#0", f"{found}#1", f"{found}#2")

    def decompose(self, handle: Handle) -> Handle:
        """A convolution of one row as a 1-D one."""
        return self._new("row", f"transform.structured.decompose {handle} : ({_ANY}) -> {_ANY}")

    def vectorize(self, handle: Handle, sizes: Sequence[int] = ()) -> None:
        """Vectors of the whole operation; with sizes, those of a tile that may be cut short."""
        masks = f" vector_sizes {list(sizes)}" if sizes else ""
        self._lines.append(f"transform.structured.vectorize {handle}{masks} : {_ANY}")

    def unroll(self, loop: Handle, turns: int) -> None:
        """Write a loop's body as often as it turns."""
        self._lines.append(f"transform.loop.unroll {loop} {{factor = {turns}}} : {_ANY}")

    def hoist(self, where: Handle) -> None:
        """Take what every turn of a loop reads and writes back out of it: sums stay in vectors."""
        self._lines += [
            f"transform.apply_patterns to {where} {{",
            "  transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers",
            f"}} : {_ANY}",
        ]
        loops = self.match_op("scf.for", where)
        self._lines += [
            f"transform.foreach {loops} : {_ANY} {{",
            f"^bb0(%loop: {_ANY}):",
            f"  transform.loop.hoist_loop_invariant_subsets %loop : {_ANY}",
            "}",
        ]

    def clean(self, where: Handle) -> None:
        """Drop what nothing reads any more."""
        self._lines.append(f"transform.apply_cse to {where} : {_ANY}")
        self._lines.append(f"transform.apply_dce to {where} : {_ANY}")

    def _new(self, stem: str, text: str) -> Handle:
        handle = self._handle(stem)
        self._lines.append(f"{handle} = {text}")
        return handle

    def _handle(self, stem: str) -> Handle:
        self._count += 1
        return f"%{stem}{self._count}"
