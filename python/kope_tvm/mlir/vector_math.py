# SPDX-License-Identifier: Apache-2.0
"""Exponentials of whole vectors in arithmetic: LLVM would call libm once an element.

A scalar keeps its call, so that what nothing vectorised is computed as MLIR's default does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kope_tvm.mlir.bindings import arith, ir, math

_LOG2_E = 1.44269504088896341
_LN2_HIGH = 0.693359375
"""ln 2 in nine bits, so that times a small integer is exact; with the rest it is Cody and Waite's
reduction."""
_LN2_LOW = -2.12194440e-4
_LEAST, _MOST = -103.97, 88.73
"""Beyond them the exponential in float32 is 0 or infinity."""
_POLYNOMIAL = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2),
    *(1.6666665459e-1, 5.0000001201e-1),
)
"""Cephes' expf: (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2, highest power first."""
_BIAS, _MANTISSA_BITS = 127, 23


@dataclass(frozen=True)
class _Vector:
    """Builds arithmetic on one type of vectors of float32."""

    of: Any
    integers: Any

    def number(self, value: float) -> Any:
        """The same number in all lanes."""
        one = ir.FloatAttr.get(self.of.element_type, value)
        return arith.constant(self.of, ir.DenseElementsAttr.get_splat(self.of, one))

    def integer(self, value: int) -> Any:
        """The same integer in all lanes."""
        one = ir.IntegerAttr.get(self.integers.element_type, value)
        return arith.constant(self.integers, ir.DenseElementsAttr.get_splat(self.integers, one))


def expand_vector_math(module: Any) -> None:
    """Expand `math.exp` and `math.tanh` of float32 vectors, in place."""
    ways: dict[str, Callable[[_Vector, Any], Any]] = {"math.exp": _exp, "math.tanh": _tanh}
    found: list[Any] = []

    def note(op: Any) -> Any:
        if op.name in ways and _is_float32_vector(op.operands[0].type):
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for op in found:
        of = op.operands[0].type
        integers = ir.VectorType.get(of.shape, ir.IntegerType.get_signless(32))
        with ir.InsertionPoint(op), op.location:
            value = ways[op.name](_Vector(of, integers), op.operands[0])
        op.results[0].replace_all_uses_with(value)
        op.erase()


def _is_float32_vector(of: Any) -> bool:
    return isinstance(of, ir.VectorType) and isinstance(of.element_type, ir.F32Type)


def _exp(vector: _Vector, x: Any) -> Any:
    # Never NaN from here on, which no conversion to integers may see.
    inside = arith.maxnumf(arith.minnumf(x, vector.number(_MOST)), vector.number(_LEAST))
    power = math.floor(math.fma(inside, vector.number(_LOG2_E), vector.number(0.5)))
    rest = math.fma(power, vector.number(-_LN2_HIGH), inside)
    rest = math.fma(power, vector.number(-_LN2_LOW), rest)
    total = vector.number(_POLYNOMIAL[0])
    for coefficient in _POLYNOMIAL[1:]:
        total = math.fma(total, rest, vector.number(coefficient))
    total = math.fma(total, arith.mulf(rest, rest), rest)
    total = arith.addf(total, vector.number(1.0))
    return _like_input(vector, x, _scaled(vector, total, power))


def _scaled(vector: _Vector, value: Any, power: Any) -> Any:
    """Times two to the power, in two halves: the whole may be no float32 where the product is."""
    whole = arith.fptosi(vector.integers, power)
    half = arith.shrsi(whole, vector.integer(1))
    for part in (half, arith.subi(whole, half)):
        biased = arith.addi(part, vector.integer(_BIAS))
        bits = arith.shli(biased, vector.integer(_MANTISSA_BITS))
        value = arith.mulf(value, arith.bitcast(vector.of, bits))
    return value


def _like_input(vector: _Vector, x: Any, value: Any) -> Any:
    """Zero and infinity beyond the ends, NaN for NaN."""
    less, more, unordered = (arith.CmpFPredicate[name] for name in ("OLT", "OGT", "UNO"))
    value = arith.select(arith.cmpf(less, x, vector.number(_LEAST)), vector.number(0.0), value)
    high = arith.cmpf(more, x, vector.number(_MOST))
    value = arith.select(high, vector.number(float("inf")), value)
    return arith.select(arith.cmpf(unordered, x, x), x, value)


def _tanh(vector: _Vector, x: Any) -> Any:
    """1 - 2 / (exp(2|x|) + 1), with the sign of x."""
    size = math.absf(x)
    grown = _exp(vector, arith.addf(size, size))
    share = arith.divf(vector.number(2.0), arith.addf(grown, vector.number(1.0)))
    return math.copysign(arith.subf(vector.number(1.0), share), x)
