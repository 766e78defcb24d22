# SPDX-License-Identifier: Apache-2.0
"""A C program that calls every function of a library and checks what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from kope_tvm.c_package.plan import CFunction, Param, Plan, c_type, num_bytes
from kope_tvm.comparison import TOLERANCE
from kope_tvm.evidence import Example
from kope_tvm.tensor_spec import TensorSpec

_MOST_VALUES = 1000
"""Stored of an output."""


def program(name: str, plan: Plan, examples: Sequence[Example]) -> str:
    """The text of main.c."""
    found = {each.function: each for each in examples}
    checked = [each for each in plan.functions if each.source in found]
    parts = (_checked(name, each, found[each.source]) for each in checked)
    calls = " | ".join(f"check_{each.name}()" for each in checked) or "0"
    return "\n".join(
        [
            "// Calls the library on inputs made here, and compares with stored values.",
            f'#include "{name}.h"',
            "",
            '#include "kope_check.h"',
            "",
            *chain.from_iterable(parts),
            f"int main(void) {{ return {calls}; }}",
            "",
        ]
    )


def _checked(name: str, function: CFunction, example: Example) -> Iterator[str]:
    outputs = [each for each in function.params if each.is_output]
    pairs = list(zip(outputs, example.outputs, strict=True))
    for param, array in pairs:
        yield f"static const double {function.name}_{param.name}[] = {{"
        yield from stored_values(array)
        yield "};"
        yield ""
    yield f"static int check_{function.name}(void) {{"
    yield from _made(function.params)
    passed = ", ".join(f"v_{each.name}" for each in function.params)
    yield f"  int code = {name}_{function.name}({passed});"
    yield f'  if (code) fprintf(stderr, "{function.name}: %s\\n", {name}_message(code));'
    yield "  int wrong = code;"
    for param, array in pairs:
        yield from _compared(function, param, array)
    yield from (f"  free(v_{each.name});" for each in function.params)
    yield "  return wrong ? 1 : 0;"
    yield "}"
    yield ""


def _made(params: Sequence[Param]) -> Iterator[str]:
    number = 0
    for param in params:
        kind = c_type(param.spec)
        value = f"take({num_bytes(param.spec)})"
        if not param.is_output:
            value = f"input({number}, {kind.code}, {kind.bits}, {param.spec.num_elements})"
            number += 1
        yield f"  {kind.name}* v_{param.name} = {value};"


def _compared(function: CFunction, param: Param, array: np.ndarray) -> Iterator[str]:
    kind, name = c_type(param.spec), f"{function.name}_{param.name}"
    allowed = allowed_error(param.spec, array)
    yield f'  wrong |= compare("{function.name}: {param.name}", v_{param.name}, {kind.code},'
    yield f"                   {kind.bits}, {stored_stride(array)}, {name},"
    yield f"                   sizeof {name} / sizeof *{name}, {allowed!r});"


def allowed_error(spec: TensorSpec, array: np.ndarray) -> float:
    """How far off an output may be from the stored one, in its own unit."""
    wide = array.astype(np.float64)
    scale = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
    return scale * TOLERANCE.get(spec.dtype, 0.0)


def stored_values(array: np.ndarray) -> Iterator[str]:
    """The values of an output that a program compares with, as lines of C."""
    flat = array.astype(np.float64).ravel()[:: stored_stride(array)]
    for begin in range(0, len(flat), 6):
        yield f"    {', '.join(map(_number, flat[begin : begin + 6]))},"


def stored_stride(array: np.ndarray) -> int:
    """From a stored value to the next.

    Odd, so that it meets every column of a matrix whose width is a power of two.
    """
    return -(-array.size // _MOST_VALUES) | 1 if array.size > _MOST_VALUES else 1


def _number(value: np.float64) -> str:
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))
