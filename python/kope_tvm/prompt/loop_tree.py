# SPDX-License-Identifier: Apache-2.0
"""A function as a compact tree of loops and blocks, a line a chain of loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import s_tir, tirx

_KIND_MARKS = {1: "p", 2: "v", 3: "u", 4: "t"}
"""`ForKind`: parallel, vectorized, unrolled, bound to a thread; serial has no mark."""
_SHORT_DTYPES = {"float": "f", "uint": "u", "int": "i", "bfloat": "bf"}
_NOISE = (
    (re.compile(r"\bT\.(?:float|int|uint|bfloat)\d+\((-?[\w.+-]+)\)"), r"\1"),
    (re.compile(r"\b-?3402823466385288598117041834845169254\d\d\.0"), "3.4e38"),
    (re.compile(r"\bT\.(?=\w)"), ""),
    (re.compile(r"(?<=\w)\.0\b"), ""),
    (re.compile(r" ([-+*/,<>=]|//|==|<=|>=) "), r"\1"),
    (re.compile(r", "), ","),
)
_MAX_EXPR = 160


@dataclass(frozen=True)
class Nest:
    """One outermost loop nest: its lines, and how often its bodies run."""

    lines: tuple[str, ...]
    work: int
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class LoopTree:
    """A function's nests in order."""

    buffers: str
    """Parameters, and temporaries of another type than theirs: the others' shapes show in the
    loops.
    """
    nests: tuple[Nest, ...]
    loops: tuple[tuple[str, tuple[str, ...]], ...]
    """Of each block, in order: the names of the loops around it, outermost first."""

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.loops)

    def shown(self, max_chars: int) -> tuple[str, ...]:
        """The lines of the busiest nests in their order; a last line counts what was left out."""
        kept, chars = set[int](), 0
        for number in sorted(range(len(self.nests)), key=lambda n: -self.nests[n].work):
            size = sum(len(line) + 1 for line in self.nests[number].lines)
            if kept and chars + size > max_chars:
                continue
            kept.add(number)
            chars += size
        lines = [line for n in sorted(kept) for line in self.nests[n].lines]
        left = [nest for n, nest in enumerate(self.nests) if n not in kept]
        return (*_cut(lines, max_chars), *([_left_out(left)] if left else []))


def loop_tree(mod: Any, known: frozenset[str] = frozenset()) -> LoopTree:
    """The tree of a module's `main`.

    With `known` blocks it is an outline of what a schedule made of them: without their statements
    and loops of extent 1, and with loops called what they are a part of.
    """
    func = mod["main"]
    tree = _Builder(known)
    root = func.body.block if isinstance(func.body, s_tir.SBlockRealize) else None
    body = root.body if root is not None else func.body
    nests = tuple(tree.nest(child) for child in _children(body))
    return LoopTree(_buffers(func, root), nests, tuple(tree.loops))


def _left_out(left: Sequence[Nest]) -> str:
    names = [name for nest in left for name in nest.blocks]
    more = "" if len(names) <= 8 else f" and {len(names) - 8} blocks more"
    return f"({len(left)} smaller nests not shown: {', '.join(names[:8])}{more})"


def _cut(lines: Sequence[str], max_chars: int) -> Iterator[str]:
    """Whole lines from the start, and a count of the rest."""
    left = max_chars
    for number, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0 and number:
            yield f"({len(lines) - number} lines not shown)"
            return
        yield line[:max_chars]


def _buffers(func: Any, root: Any) -> str:
    written = {write.source.name for write in _writes(func.body)}
    params = [
        f"{'out ' if var.name in written else ''}{_buffer(var)}"
        for var in func.params
        if tirx.buffer.is_buffer_var(var)
    ]
    usual = {_dtype(var) for var in func.params if tirx.buffer.is_buffer_var(var)}
    inner = root.alloc_buffers if root is not None else ()
    odd = [_buffer(buffer) for buffer in inner if len(usual) > 1 or _dtype(buffer) not in usual]
    return f"({', '.join(params)})" + (f" temporaries {', '.join(odd)}" if odd else "")


def _writes(body: Any) -> Iterator[Any]:
    for child in _children(body):
        node = child
        while isinstance(node, tirx.For):
            node = node.body
        for inner in _children(node):
            if isinstance(inner, s_tir.SBlockRealize):
                yield from inner.block.writes
                yield from _writes(inner.block.body)
            elif inner is not child:
                yield from _writes(inner)


def _buffer(buffer: Any) -> str:
    shape = ",".join(str(dim) for dim in buffer.shape)
    return f"{buffer.name}:{_dtype(buffer)}[{shape}]"


def _dtype(buffer: Any) -> str:
    """`f32` for float32."""
    dtype = str(buffer.dtype)
    name = dtype.rstrip("0123456789")
    return _SHORT_DTYPES.get(name, name) + dtype[len(name) :]


def _children(node: Any) -> Sequence[Any]:
    if isinstance(node, tirx.SeqStmt):
        return list(node.seq)
    if isinstance(node, s_tir.SBlockRealize) and not node.block.iter_vars:
        return _children(node.block.body)
    return [node]


class _Builder:
    """Collects the lines of nests and the loops around each block."""

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self.loops: list[tuple[str, tuple[str, ...]]] = []

    def nest(self, node: Any) -> Nest:
        start = len(self.loops)
        lines, work = self._lines(node, 0, ())
        return Nest(tuple(lines), work, tuple(name for name, _ in self.loops[start:]))

    def _lines(self, node: Any, depth: int, around: tuple[Any, ...]) -> tuple[list[str], int]:
        chain: list[Any] = []
        while isinstance(node, tirx.For):
            chain.append(node)
            node = node.body
        around = (*around, *chain)
        shown = [loop for loop in chain if not (self._known and _extent(loop) == 1)]
        loops = " ".join(self._loop(loop) for loop in shown)
        children = _children(node)
        if len(children) == 1:
            lines, work = self._leaf(children[0], depth, around)
            lines[0] = " " * depth + " ".join(filter(None, (loops, lines[0].strip())))
            return lines, work
        lines, work = [" " * depth + loops] if loops else [], 0
        for child in children:
            inner, inner_work = self._lines(child, depth + 1, around)
            lines, work = _joined(lines, inner), work + inner_work
        return lines, work

    def _loop(self, loop: Any) -> str:
        name = _short(loop.loop_var.name) if self._known else loop.loop_var.name
        return f"{name}:{_extent_text(loop)}{_KIND_MARKS.get(int(loop.kind), '')}"

    def _leaf(self, node: Any, depth: int, around: tuple[Any, ...]) -> tuple[list[str], int]:
        if isinstance(node, s_tir.SBlockRealize):
            return self._block(node, depth, around)
        if isinstance(node, tirx.For) or len(_children(node)) > 1:
            return self._lines(node, depth, around)
        return [_plain(str(node).splitlines()[-1])], prod(map(_extent, around))

    def _block(self, node: Any, depth: int, around: tuple[Any, ...]) -> tuple[list[str], int]:
        block = node.block
        self.loops.append((block.name_hint, tuple(loop.loop_var.name for loop in around)))
        work = prod(map(_extent, around))
        if block.name_hint in self._known or _is_of(block.name_hint, self._known):
            return [f"{block.name_hint}"], work
        head = f"{block.name_hint}: {_statement(block)}"
        names, where = _bindings(node)
        lines = [_renamed(head, names) + where]
        if not isinstance(block.body, tirx.BufferStore):
            inner, inner_work = self._lines(block.body, depth + 1, ())
            return lines + inner, work * inner_work
        return lines, work


def _joined(lines: list[str], more: list[str]) -> list[str]:
    """One line for passes of one block after another, e.g. the halvings of a reduction."""
    if lines and len(more) == 1 and " " in more[0].strip() and ":" not in more[0].split()[-1]:
        loops, _, block = more[0].strip().rpartition(" ")
        indent = len(more[0]) - len(more[0].lstrip())
        is_same = re.search(rf" {re.escape(block)}(?: \||$)", lines[-1])
        if is_same and lines[-1].startswith(" " * indent):
            return [*lines[:-1], f"{lines[-1]} | {loops}"]
    return lines + more


def _is_of(name: str, known: frozenset[str]) -> bool:
    """Whether it is a part that a schedule made of a known block, e.g. `C_init`."""
    return any(name.startswith(f"{one}_") for one in known)


def _statement(block: Any) -> str:
    body = block.body
    if not isinstance(body, tirx.BufferStore):
        reads = ",".join(region.source.name for region in block.reads)
        return f"{','.join(w.source.name for w in block.writes)}<-{reads}"
    name, indices = body.buffer.name, ",".join(str(index) for index in body.indices)
    left = _plain(f"[{indices}]")
    # `_` is what stands left of `=`; a block is mostly called as the buffer that it writes.
    itself = f"{name}{left}" if indices else f"{name}[()]"
    value = _plain(str(body.value).splitlines()[-1]).replace(itself, "_")
    init = f"; init {_plain(str(block.init.value))}" if _is_store(block.init) else ""
    return f"{'' if name == block.name_hint else name}{left}={value}{init}"


def _is_store(node: Any) -> bool:
    return isinstance(node, tirx.BufferStore)


def _bindings(node: Any) -> tuple[dict[str, str], str]:
    """What each block iterator is bound to: names to put in its place, and the rest as text."""
    names, odd = {}, []
    for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
        bound = _plain(str(value).splitlines()[-1])
        if re.fullmatch(r"\w+", bound):
            names[axis.var.name] = bound
        else:
            odd.append(f"{axis.var.name}={bound}")
    if str(node.predicate) not in ("True", "T.bool(True)", "1"):
        odd.append(f"where {_plain(str(node.predicate).splitlines()[-1])}")
    text = "; ".join(odd)
    return names, f"; {text}" if text else ""


def _renamed(line: str, names: dict[str, str]) -> str:
    return re.sub(r"\bv\w+", lambda found: names.get(found[0], found[0]), line)


def _plain(expr: str) -> str:
    """TVMScript without module prefixes, casts of constants and spaces, and not too long."""
    for pattern, plain in _NOISE:
        expr = pattern.sub(plain, expr)
    return expr if len(expr) <= _MAX_EXPR else f"{expr[:_MAX_EXPR]}..."


def _short(name: str) -> str:
    """The loop that a derived one came from: `k_1_k_2_fused_0` is a part of `k`."""
    return re.sub(r"(_\d|_m_|_fused|_init).*$", "", name) or name


def _extent(loop: Any) -> int:
    return int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else 1


def _extent_text(loop: Any) -> str:
    return str(int(loop.extent)) if isinstance(loop.extent, tirx.IntImm) else str(loop.extent)
