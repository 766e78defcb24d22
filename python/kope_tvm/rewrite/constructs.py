# SPDX-License-Identifier: Apache-2.0
"""The TVMScript that a rewrite may use: names of `T`, the keywords each takes, strings, limits."""

from __future__ import annotations

NAMESPACE = "T"
RESERVED = frozenset({"T", "I", "R", "tvm", "tir", "tirx", "range", "float"})
"""Names that a script may not bind."""

MAX_INT = 2**31
MAX_FOLDED_BITS = 63
"""Of an integer that the parser computes while it reads."""

SCALARS = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) | frozenset({"float16", "float32", "float64", "bfloat16", "bool"})
NARROW = frozenset({"float8_e4m3fn", "float8_e5m2", "int4", "uint4"})
DTYPES = SCALARS | NARROW
"""What a string may name where a dtype stands."""

CONVERSIONS = SCALARS | {"float8_e4m3fn", "float8_e5m2", "boolean"}
"""`T.float32(x)`."""

SCOPES = frozenset({"global", "local", "shared", "shared.dyn"})
THREADS = frozenset(
    {f"{kind}.{axis}" for kind in ("threadIdx", "blockIdx") for axis in "xyz"} | {"vthread"}
)
SPECIAL_FLOATS = frozenset({"inf", "-inf", "nan"})

LOOPS = {
    "grid": frozenset[str](),
    "serial": frozenset[str](),
    "parallel": frozenset[str](),
    "vectorized": frozenset[str](),
    "unroll": frozenset[str](),
    "thread_binding": frozenset({"thread"}),
}
"""The iterators of `for`, each with its keywords; `annotations` belongs to the plan lane."""

# fmt: off
NUMBER_OF_ONE = frozenset({
    "abs", "fabs", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt",
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint", "isnan",
    "isinf", "isfinite", "popcount", "clz", "bitwise_not", "likely", "Not",
})
NUMBER_OF_TWO = frozenset({
    "min", "max", "pow", "fmod", "atan2", "hypot", "copysign", "nextafter", "ldexp",
    "floordiv", "floormod", "truncdiv", "truncmod", "ceildiv", "shift_left", "shift_right",
    "bitwise_and", "bitwise_or", "bitwise_xor", "And", "Or",
})
# fmt: on
NUMBER_OF_THREE = frozenset({"fma", "if_then_else", "Select"})
ARITY = (
    dict.fromkeys(NUMBER_OF_ONE | CONVERSIONS, 1)
    | dict.fromkeys(NUMBER_OF_TWO, 2)
    | dict.fromkeys(NUMBER_OF_THREE, 3)
)
"""Functions of `T` from numbers to a number."""

LIMITS_OF_DTYPES = frozenset({"infinity", "min_value", "max_value"})
"""Functions of `T` from a dtype to a number."""

VALUES = frozenset(ARITY) | LIMITS_OF_DTYPES | {"cast", "Cast", "reinterpret"}

PURE_OPS = frozenset(
    f"{dialect}.{name}"
    for dialect in ("prim", "tirx")
    for name in NUMBER_OF_ONE | NUMBER_OF_TWO | NUMBER_OF_THREE | {"reinterpret"}
)
"""The operators that a parsed body may call: no memory, no state, no foreign code."""

HELP = {
    "allocate": "use T.sblock_alloc_buffer(shape, dtype)",
    "alloc_local": 'use T.sblock_alloc_buffer(shape, dtype, scope="local")',
    "alloc_shared": 'use T.sblock_alloc_buffer(shape, dtype, scope="shared")',
    "decl_buffer": "use T.sblock_alloc_buffer(shape, dtype)",
    "func_attr": "attributes are the original function's",
    "sblock_attr": "attributes are set by an `annotate` step of a plan",
    "attr": "attributes are set by an `annotate` step of a plan",
    "evaluate": "a rewrite only stores to buffers",
    "call_extern": "calls stay inside TVM's pure operators",
    "call_packed": "calls stay inside TVM's pure operators",
    "while": "use a for loop with bounds",
}
"""What would help, by construct."""
