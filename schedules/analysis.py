# SPDX-License-Identifier: Apache-2.0
"""What a schedule rule asks of a PrimFunc: its blocks in order, their iterators and accesses.

Everything is plain data about the untuned function (one flat loop nest a block, as TE,
topi and Relax legalization emit); `analyse` answers None where a shape is not static.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlock
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import IntImm
from tvm.tirx.buffer import BufferType


@dataclass(frozen=True)
class Iter:
    """One iterator of a block."""

    name: str
    kind: str
    """`S` spatial, `R` reduction."""
    extent: int


@dataclass(frozen=True)
class Index:
    """One index of an access: `sum(coefs[i] * iters[i]) + const`."""

    coefs: tuple[int, ...]
    const: int
    linear: bool = True
    """False where it is no sum with constant coefficients; `coefs` then marks by 1 what it uses."""

    @property
    def iters(self) -> tuple[int, ...]:
        """Positions of the iterators that it uses."""
        return tuple(i for i, coef in enumerate(self.coefs) if coef)

    def is_iter(self, position: int) -> bool:
        """Whether it is exactly the iterator at `position`."""
        return (
            self.linear
            and not self.const
            and self.iters == (position,)
            and self.coefs[position] == 1
        )


@dataclass(frozen=True)
class Access:
    """A load or a store."""

    buffer: str
    shape: tuple[int, ...]
    dtype: str
    indices: tuple[Index, ...]

    @property
    def is_linear(self) -> bool:
        return all(index.linear for index in self.indices)

    @property
    def is_identity(self) -> bool:
        """Whether its indices are the iterators, in order."""
        return all(index.is_iter(i) for i, index in enumerate(self.indices))

    @property
    def iters(self) -> tuple[int, ...]:
        """Positions of the iterators that any index uses, ascending."""
        return tuple(sorted({i for index in self.indices for i in index.iters}))

    def dim_of(self, position: int) -> int:
        """The first dimension whose index uses the iterator at `position`."""
        return next(p for p, index in enumerate(self.indices) if position in index.iters)

    def stride(self, position: int) -> int:
        """Elements between neighbours along the iterator at `position` (row-major)."""
        total, step = 0, 1
        for size, index in zip(reversed(self.shape), reversed(self.indices), strict=True):
            total += index.coefs[position] * step
            step *= size
        return total


@dataclass(frozen=True)
class Block:
    """One block of the function."""

    name: str
    iters: tuple[Iter, ...]
    loads: tuple[Access, ...]
    """In the body, without the loads of what it writes."""
    stores: tuple[Access, ...]
    is_reduction: bool
    body: tirx.Stmt

    def extents(self, kind: str) -> tuple[int, ...]:
        """Extents of the iterators of `kind`, in order."""
        return tuple(it.extent for it in self.iters if it.kind == kind)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(load.buffer for load in self.loads)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(store.buffer for store in self.stores)

    @property
    def is_injective(self) -> bool:
        """Every iterator spatial and one store: a cast, pad, transpose or elementwise operation."""
        return (
            not self.is_reduction
            and len(self.stores) == 1
            and all(it.kind == "S" for it in self.iters)
        )


@dataclass(frozen=True)
class Analysis:
    """A static function as its blocks, in program order."""

    blocks: tuple[Block, ...]
    params: tuple[str, ...]
    """Names of the parameters' buffers, in order."""

    @property
    def reductions(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.is_reduction)

    @property
    def anchor(self) -> Block | None:
        """The only reduction block; None where there is none or more than one."""
        return self.reductions[0] if len(self.reductions) == 1 else None

    def writer(self, buffer: str) -> Block | None:
        """The block that writes `buffer`; None for a parameter that nobody writes."""
        return next((block for block in self.blocks if buffer in block.writes), None)

    def producers(self, block: Block) -> tuple[Block, ...]:
        """Blocks whose output `block` reads, in program order."""
        return tuple(b for b in self.blocks if b is not block and b.writes & block.reads)

    def consumers(self, block: Block) -> tuple[Block, ...]:
        """Blocks that read what `block` writes, in program order."""
        return tuple(b for b in self.blocks if b is not block and b.reads & block.writes)

    def ancestors(self, block: Block) -> tuple[Block, ...]:
        """All blocks that `block` depends on, in program order."""
        found = set(block.reads)
        names = []
        for other in reversed(self.blocks[: self.blocks.index(block)]):
            if other.writes & found:
                found |= other.reads
                names.append(other)
        return tuple(reversed(names))

    def descendants(self, block: Block) -> tuple[Block, ...]:
        """All blocks that depend on `block`, in program order."""
        found = set(block.writes)
        names = []
        for other in self.blocks[self.blocks.index(block) + 1 :]:
            if other.reads & found:
                found |= other.writes
                names.append(other)
        return tuple(names)

    def is_output(self, block: Block) -> bool:
        """Whether `block` writes a parameter."""
        return bool(block.writes & frozenset(self.params))


class _NotStaticError(Exception):
    """A shape or an extent is symbolic, or the function is not made of flat blocks."""


@lru_cache(maxsize=64)
def analyse(func: tirx.PrimFunc) -> Analysis | None:
    """The blocks of `func`; None where a shape is symbolic or a block is not flat or not named."""
    found: list[SBlock] = []
    tvm_ffi.structural_walk(func.body, [(SBlock, found.append)], order="pre")
    blocks = [block for block in found if block.name_hint != "root"]
    if not blocks or len({str(block.name_hint) for block in blocks}) != len(blocks):
        return None
    reader = _Reader()
    try:
        params = tuple(reader.name(param) for param in func.params if reader.is_static(param))
        return Analysis(tuple(reader.block(block) for block in blocks), params)
    except _NotStaticError:
        return None


def is_static(func: tirx.PrimFunc) -> bool:
    """Whether every shape and extent is constant and every block flat."""
    return analyse(func) is not None


def _const(expr: object) -> int:
    if not isinstance(expr, IntImm):
        raise _NotStaticError
    return int(expr.value)


_KINDS = {tirx.IterVar.DataPar: "S", tirx.IterVar.CommReduce: "R"}


class _Reader:
    """Turns blocks to data; buffers that share a name get different ones."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def name(self, buffer: Any) -> str:
        key = hash(buffer)
        if key not in self._names:
            name, taken = str(buffer.name), set(self._names.values())
            count = 0
            while name in taken:
                count += 1
                name = f"{buffer.name}_{count}"
            self._names[key] = name
        return self._names[key]

    def is_static(self, param: Any) -> bool:
        """Always True: raises for a scalar parameter or a symbolic shape."""
        if not isinstance(param.ty, BufferType):
            raise _NotStaticError
        return all(_const(size) >= 0 for size in param.shape)

    def block(self, block: SBlock) -> Block:
        inner: list[SBlock] = []
        tvm_ffi.structural_walk(block.body, [(SBlock, inner.append)], order="pre")
        if inner:
            raise _NotStaticError
        iters = tuple(
            Iter(str(it.var.name), _KINDS.get(int(it.iter_type), "O"), _const(it.dom.extent))
            for it in block.iter_vars
        )
        loads: list[TensorLoad] = []
        stores: list[tirx.BufferStore] = []
        callbacks = [(TensorLoad, loads.append), (tirx.BufferStore, stores.append)]
        tvm_ffi.structural_walk(block.body, callbacks, order="pre")
        written = tuple(self._access(x.buffer, x.indices, block.iter_vars) for x in stores)
        names = {store.buffer for store in written}
        read = tuple(self._access(x.source, x.indices, block.iter_vars) for x in loads)
        return Block(
            name=str(block.name_hint),
            iters=iters,
            loads=tuple(load for load in read if load.buffer not in names),
            stores=written,
            is_reduction=block.init is not None and any(it.kind == "R" for it in iters),
            body=block.body,
        )

    def _access(self, buffer: Any, indices: Any, iters: Sequence[tirx.IterVar]) -> Access:
        return Access(
            buffer=self.name(buffer),
            shape=tuple(_const(size) for size in buffer.shape),
            dtype=str(buffer.dtype),
            indices=tuple(_index(expr, iters) for expr in indices),
        )


def _index(expr: Any, iters: Sequence[tirx.IterVar]) -> Index:
    variables = [it.var for it in iters]
    found = _linear(expr, variables) or _linear(_bounded(expr, iters), variables)
    if found:
        return found
    used: list[Any] = []
    tvm_ffi.structural_walk(expr, [(tirx.Var, used.append)], order="pre")
    return Index(tuple(int(any(var.same_as(u) for u in used)) for var in variables), 0, False)


def _linear(expr: Any, variables: list[tirx.Var]) -> Index | None:
    parts = list(detect_linear_equation(expr, variables)) if variables else [expr]
    if not parts or not all(isinstance(part, IntImm) for part in parts):
        return None
    values = [int(part.value) for part in parts]
    return Index(tuple(values[:-1]), values[-1])


def _bounded(expr: Any, iters: Sequence[tirx.IterVar]) -> Any:
    """What it comes to where the iterators stand: a reshape's `//` and `%` mostly go."""
    analyzer = Analyzer()
    for it in iters:
        analyzer.bind(it.var, it.dom)
    return analyzer.simplify(expr)
