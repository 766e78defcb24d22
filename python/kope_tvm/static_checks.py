# SPDX-License-Identifier: Apache-2.0
"""What the C++ passes find in a PrimFunc, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kope_tvm._ffi_api import function

Region = tuple[tuple[int, int], ...]
"""Begin and end along each axis."""


@dataclass(frozen=True)
class Coverage:
    """Whether every element of a parameter is written."""

    param: int
    written: str
    """`yes`, `no`, or `unknown` where indices or conditions do not say."""
    missing: Region = ()
    """The first region that is never written, where `written` is `no`."""


@dataclass(frozen=True)
class UninitialisedRead:
    """An element that is certainly read before anything wrote it."""

    buffer: str
    param: int
    """Place among the parameters, -1 for a temporary."""
    element: tuple[int, ...]


@dataclass(frozen=True)
class OutOfBounds:
    """An index that certainly leaves its buffer."""

    buffer: str
    axis: int
    """-1 where a vector leaves the whole buffer: then `index` is the place in memory."""
    index: int
    extent: int


@dataclass(frozen=True)
class Race:
    """A buffer of which certainly two iterations of a parallel loop write one element."""

    buffer: str
    loop: str


@dataclass(frozen=True)
class InputBranch:
    """A statement whose course depends on what stands in a parameter."""

    statement: str
    """Type key, e.g. `tirx.IfThenElse`."""
    param: int


@dataclass(frozen=True)
class UndeclaredUse:
    """A buffer that a block uses though its `reads` and `writes` do not name it."""

    block: str
    buffer: str


@dataclass(frozen=True)
class Amounts:
    """What a function computes and moves, as often as its loops run; a symbolic extent is 1."""

    flops: float
    bytes_loaded: float
    bytes_stored: float


@dataclass(frozen=True)
class LoopNode:
    """A loop or a block."""

    depth: int
    kind: str
    """`block`, or the kind of the loop: `serial`, `parallel`, `vectorized`, ..."""
    name: str
    extent: int
    """-1 where symbolic, and of a block."""


def write_coverage(func: Any, params: Sequence[int]) -> tuple[Coverage, ...]:
    """Of the parameters at these places."""
    found = function("write_coverage")(func, list(params))
    return tuple(
        Coverage(int(place), str(written), _region(*ends)) for place, written, *ends in found
    )


def _region(begin: Sequence[int], end: Sequence[int]) -> Region:
    return tuple(zip(map(int, begin), map(int, end), strict=True))


def uninitialised_reads(func: Any) -> tuple[UninitialisedRead, ...]:
    """Of temporaries and of parameters that the function writes; one a buffer."""
    return tuple(
        UninitialisedRead(str(buffer), int(param), tuple(map(int, element)))
        for buffer, param, element in function("read_uninitialised")(func)
    )


def out_of_bounds(func: Any) -> tuple[OutOfBounds, ...]:
    """In program order."""
    found = function("out_of_bounds")(func)
    return tuple(OutOfBounds(str(name), *map(int, numbers)) for name, *numbers in found)


def written_params(func: Any) -> tuple[int, ...]:
    """Places of the parameters that are stored to, or may be through an address."""
    return tuple(map(int, function("written_params")(func)))


def races(func: Any) -> tuple[Race, ...]:
    """In program order."""
    return tuple(Race(str(buffer), str(loop)) for buffer, loop in function("races")(func))


def calls(func: Any) -> frozenset[str]:
    """Operators called; foreign ones with what they name, e.g. `tirx.call_extern:memcpy`."""
    return frozenset(map(str, function("calls")(func)))


def dtypes(func: Any) -> frozenset[str]:
    """`compute T`, `accumulate T` and `cast FROM TO` of the values computed."""
    return frozenset(map(str, function("dtypes")(func)))


def literals(func: Any) -> int:
    """Number of different constants computed with; indices and conditions left out."""
    return int(function("literals")(func))


def addresses(func: Any) -> frozenset[str]:
    """Names of what takes, makes or compares an address."""
    return frozenset(map(str, function("addresses")(func)))


def input_branches(func: Any) -> frozenset[InputBranch]:
    """Statements that depend on an input's values, also by way of temporaries."""
    found = function("input_branches")(func)
    return frozenset(InputBranch(str(statement), int(param)) for statement, param in found)


def annotation_keys(func: Any) -> frozenset[str]:
    """Keys of annotations and attributes: what the compiler is told beside the computation."""
    return frozenset(map(str, function("annotations")(func)))


def undeclared_uses(func: Any) -> tuple[UndeclaredUse, ...]:
    """Sorted by block and buffer; TVM's schedules and lowering believe what a block declares."""
    found = function("undeclared_uses")(func)
    return tuple(UndeclaredUse(str(block), str(buffer)) for block, buffer in found)


def temporary_bytes(func: Any) -> float:
    """Of all temporaries together; a symbolic extent is 1."""
    return float(function("temporary_bytes")(func))


def amounts(func: Any) -> Amounts:
    """Arithmetic operations and bytes."""
    return Amounts(*map(float, function("counts")(func)))


def loop_tree(func: Any) -> tuple[LoopNode, ...]:
    """Loops and blocks in program order."""
    return tuple(
        LoopNode(int(depth), str(kind), str(name), int(extent))
        for depth, kind, name, extent in function("loop_tree")(func)
    )
