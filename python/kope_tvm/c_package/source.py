# SPDX-License-Identifier: Apache-2.0
"""The C that is written for a plan: the header, and the tables that the runtime walks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kope_tvm.c_package.plan import (
    ALIGNMENT_BYTES,
    CFunction,
    Operand,
    Param,
    Plan,
    Step,
    c_type,
    num_bytes,
)

_KERNEL = "int __tvm_ffi_{}(void* self, KopeAny* arguments, int32_t count, KopeAny* result);"


POOL = """\
// How many threads parallel loops use, the caller's among them; call it before all
// others.
void {name}_set_threads(int count);
"""


@dataclass(frozen=True)
class Source:
    """The text of one library."""

    name: str
    plan: Plan
    made_by: Sequence[str]
    alignment_bytes: int = ALIGNMENT_BYTES
    """Of every pointer that it is given."""
    threads: str = POOL
    """What its header says of them."""

    def header(self) -> str:
        """What a user includes."""
        guard = f"{self.name.upper()}_H"
        return _lines(
            *(f"// {line}" for line in self.made_by),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            "// Every function returns 0, or a code that this spells; the words are the calling",
            "// thread's until its next call. Functions may be called by many threads at once.",
            "// Every pointer is to a whole array, in C order, that begins at a multiple of",
            f"// {self.alignment_bytes} bytes; outputs overlap nothing.",
            f"const char* {self.name}_message(int code);",
            "",
            "// What made this library, a line each.",
            f"extern const char {self.name}_made_by[];",
            "",
            *self.threads.format(name=self.name).split("\n"),
            *(line for each in self.plan.functions for line in self._documented(each)),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            f"#endif  // {guard}",
        )

    def code(self) -> str:
        """The tables and the functions."""
        shapes = _Shapes()
        functions = [line for each in self.plan.functions for line in self._defined(each, shapes)]
        return _lines(
            *(f"// {line}" for line in self.made_by),
            f'#include "{self.name}.h"',
            '#include "kope_runtime.h"',
            "",
            *(_KERNEL.format(each) for each in self.plan.symbols),
            *(["extern const char kope_constants[];"] if self.plan.constants else []),
            "",
            f"const char {self.name}_made_by[] =",
            *(f'    "{_quoted(line)}\\n"' for line in self.made_by[:-1]),
            f'    "{_quoted(self.made_by[-1])}";',
            "",
            f"const char* {self.name}_message(int code) {{ return kope_message(code); }}",
            "",
            f"void {self.name}_set_threads(int count) {{ kope_set_threads(count); }}",
            "",
            f"static const int64_t kope_shapes[] = {{{shapes}}};",
            "",
            *functions,
        )

    def _documented(self, function: CFunction) -> Iterator[str]:
        yield f"// {function.source!r} of the model."
        yield f"int {self.name}_{function.name}("
        yield from (f"    {line}" for line in _declared(function.params))
        yield ");"
        yield ""

    def _defined(self, function: CFunction, shapes: _Shapes) -> Iterator[str]:
        name = function.name
        yield f"static const KopeOperand kope_{name}_operands[] = {{"
        for step in function.steps:
            yield from (f"    {_operand(each, shapes)}," for each in step.operands)
        yield "};"
        yield ""
        yield f"static const KopeStep kope_{name}_steps[] = {{"
        yield from (f"    {line}," for line in _steps(function.steps))
        yield "};"
        yield ""
        yield from self._body(function)

    def _body(self, function: CFunction) -> Iterator[str]:
        name, constants = function.name, "kope_constants" if self.plan.constants else "NULL"
        yield f"int {self.name}_{name}("
        yield from (f"    {line}" for line in _declared(function.params))
        yield ") {"
        yield "  static const KopeFunction kope_function = {"
        yield f"      kope_{name}_steps, kope_{name}_operands, kope_shapes, {constants},"
        yield (f"      {function.arena_bytes}, {len(function.steps)}, {len(function.params)}}};")
        yield f"  void* const kope_params[] = {{{', '.join(map(_passed, function.params))}}};"
        yield "  return kope_run(&kope_function, kope_params);"
        yield "}"
        yield ""


class _Shapes:
    """One table of all extents; equal shapes share their place."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._begins: dict[tuple[int, ...], int] = {}

    def __str__(self) -> str:
        return ", ".join(map(str, self.values or [0]))

    def begin(self, shape: tuple[int, ...]) -> int:
        """Where a shape lies."""
        if shape not in self._begins:
            self._begins[shape] = len(self.values)
            self.values += shape
        return self._begins[shape]


def _operand(operand: Operand, shapes: _Shapes) -> str:
    spec, kind = operand.spec, c_type(operand.spec)
    facts = (operand.place, kind.code, kind.bits, len(spec.shape), shapes.begin(spec.shape))
    return f"{{{', '.join(map(str, facts))}, {operand.at}, {num_bytes(spec)}}}"


def _steps(steps: Iterable[Step]) -> Iterator[str]:
    first = 0
    for step in steps:
        kernel = f"__tvm_ffi_{step.kernel}" if step.kernel else "NULL"
        yield f"{{{kernel}, {first}, {len(step.operands)}}}"
        first += len(step.operands)


def _declared(params: Sequence[Param]) -> Iterator[str]:
    for number, param in enumerate(params):
        kind = c_type(param.spec)
        const = "" if param.is_output else "const "
        end = "" if number == len(params) - 1 else ","
        remark = f", {kind.remark}" if kind.remark else ""
        what = "output" if param.is_output else "input"
        shape = list(param.spec.shape)
        yield f"{const}{kind.name}* {param.name}{end}  // {what} {shape}{remark}"


def _passed(param: Param) -> str:
    return param.name if param.is_output else f"(void*)(uintptr_t){param.name}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _lines(*lines: str) -> str:
    return "\n".join(lines).rstrip() + "\n"
