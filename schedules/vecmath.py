# SPDX-License-Identifier: Apache-2.0
"""Vector code for exp, erf and log: float32 polynomials where TVM calls libm once a lane.

LLVM has no vector exp, erf or log of its own, so TVM's `llvm.exp.v16f32` ends as sixteen
calls of `expf`. A lowering rule keeps the call where it is scalar and expands it where it
is a vector; schedules, traces and records do not change. Errors stay within 2 ulp, and
NaN, infinities, signed zero and denormals give what libm gives.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, Op

Lowering = Callable[[Expr], Expr | None]

_ATTR = "llvm.FLowerIntrinsic"
_DEFAULT = "default.FLowerIntrinsic"
_VECTORIZABLE = "TVectorizable"
_LEVEL = 11
# Adding 1.5 * 2**23 leaves the rounded integer in the low bits, and so many times the exponent's
# bias, 127, as there are factors to be made of it.
_MAGIC = 12582912.0
_LEAST_NORMAL = -88.0
_LN2_HIGH = 0.693359375
_LN2_LOW = math.log(2.0) - _LN2_HIGH
_EXP = (5.000000095e-01, 1.666651884e-01, 4.166620583e-02, 8.368889558e-03, 1.395048916e-03)
_ERF_NEAR = (
    *(1.283791667e-01, -3.761263387e-01, 1.128369657e-01, -2.685941771e-02),
    *(5.201000550e-03, -8.141600866e-04, 8.362818080e-05),
)
_ERF_FAR = (
    *(-1.732412167e-04, 1.129508162e00, 6.333602340e-01, 1.082658111e-01),
    *(-2.511044364e-02, 4.167744558e-03, -4.337964491e-04, 2.103899488e-05),
)
_LOG = (
    *(3.333331044e-01, -2.499998660e-01, 2.000222661e-01, -1.666925082e-01, 1.421865809e-01),
    *(-1.238434848e-01, 1.187297631e-01, -1.178980765e-01, 6.915367970e-02),
)
_previous: dict[str, Lowering | None] = {}


def install() -> None:
    """Make TVM's LLVM back end expand vector exp, erf and log; twice is once."""
    if _previous:
        return
    for name, expand in (("tirx.exp", _exp), ("tirx.erf", _erf), ("tirx.log", _log)):
        _previous[name] = Op.get(name).get_attr(_ATTR)
        lower = _vector_only(expand, _previous[name] or Op.get(name).get_attr(_DEFAULT))
        tirx.op.register_intrin_lowering(name, "llvm", f=lower, level=_LEVEL)
    Op.get("tirx.erf").set_attr(_VECTORIZABLE, True)  # TVM vectorizes exp and log, not erf.


def uninstall() -> None:
    """Put TVM's own lowering back."""
    for name, lowering in _previous.items():
        Op.get(name).reset_attr(_ATTR)
        if lowering:
            tirx.op.register_intrin_lowering(name, "llvm", f=lowering)
    Op.get("tirx.erf").reset_attr(_VECTORIZABLE)
    _previous.clear()


def _vector_only(expand: Lowering, otherwise: Lowering) -> Lowering:
    def lower(call: Expr) -> Expr | None:
        element, _, lanes = str(call.ty).partition("x")
        if element == "float32" and lanes:
            return expand(call.args[0])
        if call.op.name == "tirx.erf" and lanes:
            return _lane_by_lane(call, element, int(lanes))
        return otherwise(call)

    return lower


def _lane_by_lane(call: Expr, element: str, lanes: int) -> Expr:
    """A vector call as scalar ones: what the vectorizer does where an op has no vector form."""
    scalars = [
        tirx.call_intrin(
            element, call.op, tirx.Shuffle([call.args[0]], [tirx.const(lane, "int32")])
        )
        for lane in range(lanes)
    ]
    return tirx.Shuffle(scalars, [tirx.const(lane, "int32") for lane in range(lanes)])


class _Lanes:
    """Constants and casts with the lanes of one vector expression."""

    def __init__(self, like: Expr) -> None:
        self.suffix = str(like.ty).removeprefix("float32")
        lanes = self.suffix.removeprefix("x")
        scalable = lanes.startswith("vscale")
        self.lanes = tirx.vscale() * int(lanes.removeprefix("vscalex")) if scalable else int(lanes)

    def const(self, value: float) -> Expr:
        return tirx.Broadcast(tirx.FloatImm("float32", value), self.lanes)

    def int_const(self, value: int) -> Expr:
        return tirx.Broadcast(tirx.IntImm("int32", value), self.lanes)

    def bits(self, value: Expr) -> Expr:
        return tirx.reinterpret("int32" + self.suffix, value)

    def float_of_bits(self, value: Expr) -> Expr:
        return tirx.reinterpret("float32" + self.suffix, value)

    def shifted(self, value: Expr, bits: int) -> Expr:
        """`value << bits`, or an arithmetic right shift where `bits` is negative."""
        move = tirx.op.shift_left if bits > 0 else tirx.op.shift_right
        return move(value, self.int_const(abs(bits)))

    def polynomial(self, x: Expr, coefficients: Sequence[float]) -> Expr:
        """Horner's rule, lowest power first."""
        total = self.const(coefficients[-1])
        for value in reversed(coefficients[:-1]):
            total = total * x + self.const(value)
        return total


def _let(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """Name a value: without it the expression tree doubles at every use."""
    name = tirx.Var("v", value.ty)
    return tirx.Let(name, value, body(name))


def _exp(x: Expr) -> Expr:
    lanes = _Lanes(x)
    if _is_limited_to_zero(x):
        return _exp_of_limited(lanes, x)
    low, high = lanes.const(-104.0), lanes.const(89.0)

    def clamped(raw: Expr) -> Expr:
        limited = tirx.Select(raw > high, high, raw)
        return _not_below(limited, low, lambda arg: _exp_clamped(lanes, arg))

    return _let(x, clamped)


def _not_below(x: Expr, low: Expr, body: Callable[[Expr], Expr]) -> Expr:
    # Like the upper limit's, the comparison is false for NaN, which therefore goes through.
    return _let(x, lambda raw: _let(tirx.Select(raw < low, low, raw), body))


def _is_limited_to_zero(x: Expr) -> bool:
    """Whether it is `Select(v > 0, 0, v)`, as `rewrite.exponent` limits what is not positive."""
    if not isinstance(x, tirx.Select):
        return False
    limit, above = x.true_value, x.condition
    is_zero = isinstance(limit, tirx.Broadcast) and float(limit.value) == 0.0
    is_below = isinstance(above, tirx.LT) and tvm_ffi.structural_equal(above.a, limit)
    return is_zero and is_below and tvm_ffi.structural_equal(above.b, x.false_value)


def _exp_of_limited(lanes: _Lanes, x: Expr) -> Expr:
    """e**x of x <= 0; what is below the smallest normal number, 2**-126, may come out as zero."""
    return _not_below(x, lanes.const(_LEAST_NORMAL), lambda arg: _exp_normal(lanes, arg))


def _exp_normal(lanes: _Lanes, x: Expr) -> Expr:
    """e**x for x from `_LEAST_NORMAL` to 88: the power of two is one factor."""

    def of_rest(rest: Expr, rounded: Expr) -> Expr:
        return _exp_of_rest(lanes, rest) * lanes.float_of_bits(
            lanes.shifted(lanes.bits(rounded), 23)
        )

    return _reduced(lanes, x, _MAGIC + 127.0, of_rest)


def _exp_clamped(lanes: _Lanes, x: Expr) -> Expr:
    def of_rest(rest: Expr, rounded: Expr) -> Expr:
        bits = lanes.bits(rounded)
        # 2**n in two factors, so that 2**128 and the denormals below 2**-126 come out right;
        # the shift by 23 drops all of the magic number but the two exponent biases.
        return _let(
            lanes.shifted(bits, -1),
            lambda half: (
                _exp_of_rest(lanes, rest)
                * lanes.float_of_bits(lanes.shifted(half, 23))
                * lanes.float_of_bits(lanes.shifted(bits - half, 23))
            ),
        )

    return _reduced(lanes, x, _MAGIC + 254.0, of_rest)


def _exp_of_rest(lanes: _Lanes, rest: Expr) -> Expr:
    return (lanes.polynomial(rest, _EXP) * rest + lanes.const(1.0)) * rest + lanes.const(1.0)


def _reduced(
    lanes: _Lanes, x: Expr, magic_value: float, of_rest: Callable[[Expr, Expr], Expr]
) -> Expr:
    """`x = n ln 2 + rest`: what `of_rest` makes of the rest and of `n + magic_value`."""
    magic = lanes.const(magic_value)

    def of_rounded(rounded: Expr) -> Expr:
        return _let(
            rounded - magic,
            lambda n: _let(
                x - n * lanes.const(_LN2_HIGH) - n * lanes.const(_LN2_LOW),
                lambda rest: of_rest(rest, rounded),
            ),
        )

    return _let(x * lanes.const(math.log2(math.e)) + magic, of_rounded)


def _erf(x: Expr) -> Expr:
    lanes = _Lanes(x)
    sign = lanes.int_const(-(1 << 31))

    def near_or_far(arg: Expr, size: Expr) -> Expr:
        near = _let(arg * arg, lambda z: lanes.polynomial(z, _ERF_NEAR) * arg + arg)
        # Of at most 4 the polynomial is less than 17.
        far = lanes.const(1.0) - _exp_normal(
            lanes, lanes.const(0.0) - lanes.polynomial(size, _ERF_FAR)
        )
        signed = lanes.float_of_bits(
            tirx.bitwise_or(lanes.bits(far), tirx.bitwise_and(lanes.bits(arg), sign))
        )
        return tirx.Select(size > lanes.const(0.921875), signed, near)

    def of(arg: Expr) -> Expr:
        magnitude = lanes.float_of_bits(
            tirx.bitwise_and(lanes.bits(arg), lanes.int_const((1 << 31) - 1))
        )
        limit = lanes.const(4.0)
        return _let(
            magnitude,
            lambda raw: _let(
                tirx.Select(raw > limit, limit, raw), lambda size: near_or_far(arg, size)
            ),
        )

    return _let(x, of)


def _log(x: Expr) -> Expr:
    lanes = _Lanes(x)
    tiny = lanes.const(2.0**-126)

    def of(arg: Expr) -> Expr:
        # A denormal is lifted by 2**23 first.
        lifted = tirx.Select(arg < tiny, arg * lanes.const(2.0**23), arg)
        lift = tirx.Select(arg < tiny, lanes.const(-23.0), lanes.const(0.0))
        return _let(lifted, lambda y: _log_edges(lanes, arg, _log_normal(lanes, y, lift)))

    return _let(x, of)


def _log_normal(lanes: _Lanes, x: Expr, lift: Expr) -> Expr:
    # x = 2**n * m with m in [sqrt(1/2), sqrt(2)): subtract sqrt(1/2)'s bits, keep the exponent.
    root = struct.unpack("<i", struct.pack("<f", math.sqrt(0.5)))[0]

    def of(n: Expr) -> Expr:
        mantissa = lanes.float_of_bits(lanes.bits(x) - lanes.shifted(n, 23))
        power = tirx.Cast("float32" + lanes.suffix, n) + lift
        return _let(
            mantissa - lanes.const(1.0),
            lambda t: _let(
                t * t,
                lambda z: _let(
                    power,
                    lambda p: (
                        p * lanes.const(_LN2_HIGH)
                        + (
                            t
                            + (
                                p * lanes.const(_LN2_LOW)
                                + (lanes.polynomial(t, _LOG) * (z * t) - z * lanes.const(0.5))
                            )
                        )
                    ),
                ),
            ),
        )

    return _let(lanes.shifted(lanes.bits(x) - lanes.int_const(root), -23), of)


def _log_edges(lanes: _Lanes, x: Expr, value: Expr) -> Expr:
    zero, infinity = lanes.const(0.0), lanes.const(math.inf)
    finite = tirx.Select(x < infinity, value, x)  # +inf and NaN are their own logarithms
    at_zero = tirx.Select(x > zero, finite, lanes.const(-math.inf))
    # Negative, not NaN: NaN compares false and must stay in `finite`.
    below = tirx.Select(x < zero, lanes.const(math.nan), at_zero)
    return tirx.Select(tirx.op.isnan(x), x, below)
