# SPDX-License-Identifier: Apache-2.0
"""An untouched PrimFunc as a function of linalg on tensors: an operation a block.

The reverse of `importing`. What linalg has no words for is named; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm import tirx
from tvm.tirx.buffer import BufferType

from kope_tvm.extraction import written_params
from kope_tvm.mlir.source import Source, dims_of
from kope_tvm.mlir.spelling import (
    UnsayableError,
    shape_of,
    spelt_map,
    spelt_number,
    tensor_type,
    type_of,
)
from kope_tvm.mlir.tir_blocks import TirBlock, blocks_of
from kope_tvm.mlir.tir_body import TirBody
from kope_tvm.mlir.tir_pad import Pad, pad_of


@dataclass(frozen=True)
class SaidFunction:
    """A function's text, and the operation that each of its blocks became."""

    text: str
    sources: dict[str, Source]


def said_function(name: str, func: tirx.PrimFunc) -> SaidFunction:
    """A function in MLIR's words; raises UnsayableError with what it has none for."""
    return _Function(func).said(name)


class _Operand(NamedTuple):
    """Of a `linalg.generic`."""

    value: str
    kind: str
    scalar: str
    map: str


class _Function:
    """One function as it is written."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self._func = func
        self._values: dict[Any, str] = {}
        """What each buffer that has been computed is called."""
        self._lines: list[str] = []
        self._sources: dict[str, Source] = {}
        self._reads: tuple[frozenset[int], ...] = ()
        """Of the operation written last, as `Source` has them."""
        self._count = 0

    def said(self, name: str) -> SaidFunction:
        """The function under this name."""
        params = list(self._func.params)
        for param in params:
            if not isinstance(param.ty, BufferType):
                raise UnsayableError(f"its parameter {param.name} is a scalar")
        written = written_params(self._func)
        inputs = [each for at, each in enumerate(params) if at not in written]
        self._values = {each: f"%arg{number}" for number, each in enumerate(inputs)}
        for block in blocks_of(self._func):
            self._block(block)
        return SaidFunction(self._text(name, inputs, [params[at] for at in written]), self._sources)

    def _text(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
        given = ", ".join(f"%arg{at}: {_kind(each)}" for at, each in enumerate(inputs))
        kinds = ", ".join(map(_kind, outputs))
        values = ", ".join(map(self._value, outputs))
        body = "\n".join(f"  {line}" for line in [*self._lines, f"return {values} : {kinds}"])
        return f"func.func @{name}({given}) -> ({kinds}) {{\n{body}\n}}\n"

    def _block(self, block: TirBlock) -> None:
        written = block.store.buffer
        try:
            if written in self._values:
                raise UnsayableError(f"it writes {written.name}, which has a value already")
            self._lines.append(f"// {block.name}")
            pad = pad_of(block.store)
            self._values[written] = self._generic(block) if pad is None else self._pad(pad)
        except UnsayableError as error:
            raise UnsayableError(f"{block.name}: {error}") from error
        op = "linalg.generic" if pad is None else "tensor.pad"
        which = sum(1 for source in self._sources.values() if source.op == op)
        dims = tuple(range(len(block.extents)))
        reads = self._reads if pad is None else ()
        self._sources[block.name] = Source(op, which, dims, block.extents, block.reduced, reads)

    def _pad(self, pad: Pad) -> str:
        source, scalar = self._value(pad.source), _scalar(pad.source)
        value = self._new(f"arith.constant {spelt_number(pad.value)} : {scalar}")
        low, high = (", ".join(map(str, sizes)) for sizes in (pad.low, pad.high))
        made = self._new(f"tensor.pad {source} low[{low}] high[{high}] {{")
        indices = ", ".join(f"%i{at}: index" for at in range(len(pad.low)))
        self._lines += [f"^bb0({indices}):", f"  tensor.yield {value} : {scalar}"]
        self._lines.append(f"}} : {_kind(pad.source)} to {_kind(pad.into)}")
        return made

    def _generic(self, block: TirBlock) -> str:
        body = TirBody(block)
        yielded = body.value(block.store.value)
        read = [
            _Operand(self._value(buffer), _kind(buffer), _scalar(buffer), words)
            for buffer, words in body.operands
        ]
        read += self._windows(block, [each.map for each in read])
        self._reads = tuple(dims_of(each.map) for each in read)
        written = block.store.buffer
        own = spelt_map(block.store.indices, block.dims)
        out = _Operand(self._start(block), _kind(written), _scalar(written), own)
        made = self._opened(block, read, out)
        arguments = [f"%in{at}: {each.scalar}" for at, each in enumerate(read)]
        self._lines.append(f"^bb0({', '.join([*arguments, f'%out: {out.scalar}'])}):")
        self._lines += [f"  {line}" for line in body.lines]
        self._lines += [f"  linalg.yield {yielded} : {out.scalar}", f"}} -> {out.kind}"]
        return made

    def _opened(self, block: TirBlock, read: Sequence[_Operand], out: _Operand) -> str:
        """The first line of a `linalg.generic`."""
        maps = ", ".join(each.map for each in (*read, out))
        kinds = ", ".join(
            '"reduction"' if at in block.reduced else '"parallel"'
            for at in range(len(block.extents))
        )
        ins = f"ins({_listed(read)}) " if read else ""
        return self._new(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"{ins}outs({_listed([out])}) {{"
        )

    def _windows(self, block: TirBlock, maps: Sequence[str]) -> list[_Operand]:
        """An operand that nobody reads, of the extents that no other operand tells alone."""
        own = spelt_map(block.store.indices, block.dims)
        told = {part for each in (*maps, own) for part in _results(each)}
        missing = [var for var, at in block.dims.items() if f"d{at}" not in told]
        if not missing:
            return []
        dtype = str(block.store.buffer.dtype)
        kind = tensor_type([block.extents[block.dims[var]] for var in missing], dtype)
        empty = self._new(f"tensor.empty() : {kind}")
        return [_Operand(empty, kind, type_of(dtype), spelt_map(missing, block.dims))]

    def _start(self, block: TirBlock) -> str:
        """What the output holds at first."""
        kind, scalar = _kind(block.store.buffer), _scalar(block.store.buffer)
        empty = self._new(f"tensor.empty() : {kind}")
        if block.start is None:
            return empty
        value = self._new(f"arith.constant {spelt_number(block.start)} : {scalar}")
        return self._new(f"linalg.fill ins({value} : {scalar}) outs({empty} : {kind}) -> {kind}")

    def _value(self, buffer: Any) -> str:
        if buffer not in self._values:
            raise UnsayableError(f"it reads {buffer.name} before anything is written there")
        return self._values[buffer]

    def _new(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"%{self._count} = {text}")
        return f"%{self._count}"


def _kind(buffer: Any) -> str:
    return tensor_type(shape_of(buffer), str(buffer.dtype))


def _scalar(buffer: Any) -> str:
    return type_of(str(buffer.dtype))


def _listed(operands: Sequence[_Operand]) -> str:
    values = ", ".join(each.value for each in operands)
    return f"{values} : {', '.join(each.kind for each in operands)}"


def _results(words: str) -> list[str]:
    """The results of a map's text."""
    return words.partition("-> (")[2].removesuffix(")>").split(", ")
