# SPDX-License-Identifier: Apache-2.0
"""The value that a block of TIR stores as the body of a `linalg.generic`, a line an operation.

The reverse of `scalars`: TIR compares ordered, and knows no NaN where it takes a maximum.
"""

from __future__ import annotations

from typing import Any

from tvm import ir as tvm_ir
from tvm import tirx
from tvm.sym import Analyzer
from tvm_ffi import structural_equal

from kope_tvm.mlir.scalars import dtype, largest, largest_number, smallest, smallest_number
from kope_tvm.mlir.spelling import UnsayableError, shape_of, spelt_map, spelt_number, type_of
from kope_tvm.mlir.tir_blocks import TirBlock

_NO_NANS = " fastmath<nnan>"
_BINARY: tuple[tuple[Any, str, str], ...] = (
    (tirx.Add, "addf", "addi"),
    (tirx.Sub, "subf", "subi"),
    (tirx.Mul, "mulf", "muli"),
    (tirx.Div, "divf", "divsi"),
    (tirx.FloorDiv, "", "floordivsi"),
    (tirx.Mod, "remf", "remsi"),
    (tirx.Max, "maximumf", "maxsi"),
    (tirx.Min, "minimumf", "minsi"),
    (tirx.And, "", "andi"),
    (tirx.Or, "", "ori"),
)
_COMPARED: tuple[tuple[Any, str, str], ...] = (
    (tirx.EQ, "oeq", "eq"),
    (tirx.NE, "one", "ne"),
    (tirx.LT, "olt", "slt"),
    (tirx.LE, "ole", "sle"),
    (tirx.GT, "ogt", "sgt"),
    (tirx.GE, "oge", "sge"),
)
_CALLS = {
    "fabs": "absf",
    "pow": "powf",
    "nearbyint": "roundeven",
    **{
        name: name
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign"),
            *("cos", "cosh", "erf", "exp", "exp2", "floor", "log", "log10", "log1p", "log2"),
            *("rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
}
_CHOICES = ("if_then_else", "select")
_EXTREMES = (
    *((largest, "maximumf"), (smallest, "minimumf")),
    *((largest_number, "maxnumf"), (smallest_number, "minnumf")),
)
"""What is imported as a choice, since TIR's own maximum knows no NaN."""


class TirBody:
    """Collects the operands that a block reads, and the operations on their elements."""

    def __init__(self, block: TirBlock) -> None:
        self.operands: list[tuple[Any, str]] = []
        """Buffers that are read, each through an affine map."""
        self.lines: list[str] = []
        self._block = block
        self._analyzer = Analyzer()
        for var, at in block.dims.items():
            self._analyzer.bind(var, tvm_ir.Range(0, block.extents[at]))

    def value(self, expr: Any) -> str:
        """The SSA name of an expression's value."""
        if isinstance(expr, tvm_ir.TensorLoad):
            return self._load(expr)
        if isinstance(expr, (tirx.IntImm, tirx.FloatImm)):
            kind = type_of(dtype(expr))
            return self._line(f"arith.constant {spelt_number(expr)}", "" if kind == "i1" else kind)
        if isinstance(expr, tirx.Var) and expr in self._block.dims:
            at = self._line(f"linalg.index {self._block.dims[expr]}", "index")
            return self._line(f"arith.index_cast {at}", f"index to {type_of(dtype(expr))}")
        if isinstance(expr, tirx.Cast):
            return self._cast(expr)
        if isinstance(expr, (tirx.Select, tirx.Not, tirx.FloorMod)):
            return self._other(expr)
        return self._call(expr) if isinstance(expr, tvm_ir.Call) else self._binary(expr)

    def _load(self, load: Any) -> str:
        if load.source.same_as(self._block.store.buffer):
            return self._own(load)
        operand = (load.source, spelt_map(load.indices, self._block.dims))
        self._check_bounds(load)
        for number, (buffer, words) in enumerate(self.operands):
            if buffer.same_as(operand[0]) and words == operand[1]:
                return f"%in{number}"
        self.operands.append(operand)
        return f"%in{len(self.operands) - 1}"

    def _own(self, load: Any) -> str:
        """The element of the output that is being computed."""
        pairs = zip(load.indices, self._block.store.indices, strict=True)
        if self._block.start is None or not all(one.same_as(other) for one, other in pairs):
            raise UnsayableError(f"it reads {load}, which it writes")
        return "%out"

    def _check_bounds(self, load: Any) -> None:
        """An operand's element is read whatever a condition around it says."""
        for index, extent in zip(load.indices, shape_of(load.source), strict=True):
            bound = self._analyzer.const_int_bound(index)
            if bound.min_value < 0 or bound.max_value >= extent:
                raise UnsayableError(f"it reads {load} behind a condition, out of its bounds")
            if index in self._block.dims and bound.max_value + 1 != extent:
                raise UnsayableError(f"it reads {load}, a part of that tensor")

    def _binary(self, expr: Any) -> str:
        for kind, floating, whole in _BINARY:
            if isinstance(expr, kind):
                is_float = _is_float(expr)
                word = floating if is_float else whole
                flags = _NO_NANS if is_float and kind in (tirx.Max, tirx.Min) else ""
                if not word:
                    return self._refuse(expr)
                return self._of(f"arith.{word}", expr.a, expr.b, flags)
        for kind, floating, whole in _COMPARED:
            if isinstance(expr, kind):
                is_float = _is_float(expr.a)
                word = f"cmpf {floating}," if is_float else f"cmpi {whole},"
                return self._of(f"arith.{word}", expr.a, expr.b)
        return self._refuse(expr)

    def _of(self, word: str, left: Any, right: Any, flags: str = "") -> str:
        names = f"{self.value(left)}, {self.value(right)}"
        return self._line(f"{word} {names}{flags}", type_of(dtype(left)))

    def _other(self, expr: Any) -> str:
        if isinstance(expr, tirx.Select):
            for made, word in _EXTREMES if _is_float(expr) else ():
                if structural_equal(expr, made(expr.true_value, expr.false_value)):
                    return self._of(f"arith.{word}", expr.true_value, expr.false_value)
            return self._choice(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, tirx.Not):
            one = self._line("arith.constant true", "")
            return self._line(f"arith.xori {self.value(expr.a)}, {one}", "i1")
        return self.value(expr.a - tirx.floordiv(expr.a, expr.b) * expr.b)

    def _choice(self, condition: Any, yes: Any, no: Any) -> str:
        names = ", ".join(self.value(each) for each in (condition, yes, no))
        return self._line(f"arith.select {names}", type_of(dtype(yes)))

    def _call(self, call: Any) -> str:
        name = str(getattr(call.op, "name", call.op)).rpartition(".")[2]
        if name in _CHOICES:
            return self._choice(*call.args)
        if name == "isnan":
            return self._of("arith.cmpf uno,", call.args[0], call.args[0])
        if name == "sigmoid":
            one = tirx.const(1, dtype(call))
            return self.value(one / (one + tirx.exp(-call.args[0])))
        if name not in _CALLS or not _is_float(call):
            return self._refuse(call)
        names = ", ".join(self.value(each) for each in call.args)
        return self._line(f"math.{_CALLS[name]} {names}", type_of(dtype(call)))

    def _cast(self, cast: Any) -> str:
        of, to = type_of(dtype(cast.value)), type_of(dtype(cast))
        value = self.value(cast.value)
        if of == to:
            return value
        if to == "i1":
            zero = self.value(tirx.const(0, dtype(cast.value)))
            word = "cmpf une," if of[0] == "f" else "cmpi ne,"
            return self._line(f"arith.{word} {value}, {zero}", of)
        return self._line(f"arith.{_cast_word(of, to)} {value}", f"{of} to {to}")

    def _line(self, text: str, kind: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}" + (f" : {kind}" if kind else ""))
        return name

    def _refuse(self, expr: Any) -> str:
        raise UnsayableError(f"{expr} is no operation that is exported")


def _is_float(expr: Any) -> bool:
    return "float" in dtype(expr)


def _cast_word(of: str, to: str) -> str:
    is_from_float, is_to_float = of[0] == "f", to[0] == "f"
    if is_from_float and is_to_float:
        return "extf" if _bits(of) < _bits(to) else "truncf"
    if is_from_float:
        return "fptosi"
    if is_to_float:
        return "uitofp" if of == "i1" else "sitofp"
    return ("extui" if of == "i1" else "extsi") if _bits(of) < _bits(to) else "trunci"


def _bits(kind: str) -> int:
    return int(kind.lstrip("fi"))
