# SPDX-License-Identifier: Apache-2.0
"""The C that puts a library's functions into graphs of ggml, and the program that tries them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kope_tvm.c_package.example import allowed_error, stored_stride, stored_values
from kope_tvm.c_package.plan import c_type, num_bytes
from kope_tvm.evidence import Example
from kope_tvm.ggml_package.operator import GgmlOperator, GgmlTensor

_CONTEXT = "struct ggml_context* ctx"


@dataclass(frozen=True)
class Plug:
    """Texts about one library and its operators."""

    name: str
    operators: Sequence[GgmlOperator]
    made_by: Sequence[str]

    def header(self) -> str:
        """`<name>_ggml.h`."""
        return _lines(
            *(f"// {line}" for line in self.made_by),
            "#pragma once",
            "",
            "#include <ggml.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *(line for each in self.operators for line in self._declared(each)),
            "#ifdef __cplusplus",
            "}",
            "#endif",
        )

    def code(self) -> str:
        """`<name>_ggml.c`, which is compiled with the program: ggml's structs change."""
        return _lines(
            f"// Puts the functions of {self.name}.h into graphs of ggml.",
            f'#include "{self.name}_ggml.h"',
            "",
            f'#include "{self.name}.h"',
            "",
            *_FITS,
            *(line for each in self.operators for line in self._defined(each)),
        )

    def program(self, examples: Sequence[Example]) -> str:
        """`main.c`: every operator once, on inputs made anew, against stored values."""
        found = {each.function: each for each in examples}
        pairs = [(each, found.get(each.function.source)) for each in self.operators]
        checked = [(each, example) for each, example in pairs if example is not None]
        calls = " | ".join(f"check_{each.function.name}(num_threads)" for each, _ in checked)
        return _lines(
            "// Runs the operators in graphs of ggml, on inputs made here: `main [THREADS]`.",
            "#include <ggml-cpu.h>",
            "",
            f'#include "{self.name}_ggml.h"',
            '#include "kope_check.h"',
            "",
            *(line for each, example in checked for line in self._checked(each, example)),
            "int main(int argc, char** argv) {",
            "  int num_threads = argc > 1 ? atoi(argv[1]) : 2;",
            f"  return {calls or '(void)num_threads, 0'};",
            "}",
        )

    def call(self, operator: GgmlOperator) -> str:
        """The C function's name."""
        return f"{self.name}_ggml_{operator.function.name}"

    def _declared(self, operator: GgmlOperator) -> Iterator[str]:
        yield f"// {operator.function.source!r} of the model: {_signature(operator)}."
        yield "// NULL where a tensor is another type or size, or is not contiguous."
        yield f"{self._prototype(operator)};"
        yield ""

    def _prototype(self, operator: GgmlOperator) -> str:
        tensors = ", ".join(f"struct ggml_tensor* {each.name}" for each in operator.inputs)
        return f"struct ggml_tensor* {self.call(operator)}({_CONTEXT}, {tensors})"

    def _defined(self, operator: GgmlOperator) -> Iterator[str]:
        name, output = operator.function.name, operator.output
        inputs = iter(range(len(operator.inputs)))
        passed = [
            "dst->data" if param.is_output else f"dst->src[{next(inputs)}]->data"
            for param in operator.function.params
        ]
        taken = "struct ggml_tensor* dst, int ith, int nth, void* none"
        yield f"static void compute_{name}({taken}) {{"
        yield "  (void)none;"
        yield f"  {self.name}_share(ith, nth);"
        yield f"  int code = {self.name}_{name}({', '.join(passed)});"
        yield f'  if (code) GGML_ABORT("{self.name}_{name}: %s", {self.name}_message(code));'
        yield "}"
        yield ""
        yield f"{self._prototype(operator)} {{"
        for each in operator.inputs:
            yield f"  static const int64_t of_{each.name}[] = {_braced(each)};"
        for each in operator.inputs:
            yield f"  if (!fits({each.name}, {each.type}, of_{each.name})) return NULL;"
        names = ", ".join(each.name for each in operator.inputs)
        tasks = "GGML_N_TASKS_MAX" if operator.is_shared else "1"
        yield f"  struct ggml_tensor* args[] = {{{names}}};"
        extents = ", ".join(map(str, output.extents))
        yield f"  return ggml_custom_4d(ctx, {output.type}, {extents}, args,"
        yield f"                        {len(operator.inputs)}, compute_{name}, {tasks}, NULL);"
        yield "}"
        yield ""

    def _checked(self, operator: GgmlOperator, example: Example) -> Iterator[str]:
        name = operator.function.name
        output = next(each for each in operator.function.params if each.is_output)
        spec, kind, wanted = output.spec, c_type(output.spec), f"wanted_{name}"
        (array,) = example.outputs
        yield f"static const double {wanted}[] = {{"
        yield from stored_values(np.asarray(array))
        yield "};"
        yield ""
        yield f"static int check_{name}(int num_threads) {{"
        total = sum(num_bytes(each.spec) for each in operator.function.params)
        yield f"  struct ggml_init_params room = {{{total} + (1 << 20), NULL, false}};"
        yield "  struct ggml_context* ctx = ggml_init(room);"
        yield from self._inputs(operator)
        names = ", ".join(each.name for each in operator.inputs)
        yield f"  struct ggml_tensor* out = {self.call(operator)}(ctx, {names});"
        yield "  struct ggml_cgraph* graph = ggml_new_graph(ctx);"
        yield "  ggml_build_forward_expand(graph, out);"
        yield "  int wrong = ggml_graph_compute_with_ctx(ctx, graph, num_threads) != 0;"
        yield f'  wrong |= compare("{name}", out->data, {kind.code}, {kind.bits},'
        yield f"                   {stored_stride(array)}, {wanted},"
        yield f"                   sizeof {wanted} / sizeof *{wanted},"
        yield f"                   {allowed_error(spec, array)!r});"
        yield "  ggml_free(ctx);"
        yield "  return wrong ? 1 : 0;"
        yield "}"
        yield ""

    def _inputs(self, operator: GgmlOperator) -> Iterator[str]:
        params = [each for each in operator.function.params if not each.is_output]
        for number, (tensor, param) in enumerate(zip(operator.inputs, params, strict=True)):
            kind = c_type(param.spec)
            extents = ", ".join(map(str, tensor.extents))
            yield f"  struct ggml_tensor* {tensor.name} ="
            yield f"      ggml_new_tensor_4d(ctx, {tensor.type}, {extents});"
            yield f"  for (size_t i = 0; i < {param.spec.num_elements}; ++i)"
            yield f"    put({tensor.name}->data, {kind.code}, {kind.bits}, i, hashed(i, {number}));"


_FITS = (
    "static int fits(const struct ggml_tensor* tensor, enum ggml_type type, const int64_t* of) {",
    "  for (int i = 0; i < GGML_MAX_DIMS; ++i)",
    "    if (tensor->ne[i] != of[i]) return 0;",
    "  return tensor->type == type && ggml_is_contiguous(tensor);",
    "}",
    "",
)


def _braced(tensor: GgmlTensor) -> str:
    return f"{{{', '.join(map(str, tensor.extents))}}}"


def _signature(operator: GgmlOperator) -> str:
    return f"{', '.join(map(str, operator.inputs))} -> {operator.output}"


def _lines(*lines: str) -> str:
    return "\n".join(lines).rstrip() + "\n"
