# SPDX-License-Identifier: Apache-2.0
"""The C that tells the operators of a library apart: `kope_ops.h`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kope_tvm.c_package.plan import Param, num_bytes
from kope_tvm.ort_package.edges import Operator, element_type


def table(name: str, operators: Sequence[Operator], made_by: Sequence[str]) -> str:
    """The text that kope_ort.c takes in."""
    lines = [f"// {line}" for line in made_by]
    lines += ["// Operators of ONNX Runtime; their callbacks are kope_ort.c's.", ""]
    lines += [f'#include "{name}.h"', ""]
    for operator in operators:
        lines += _operator(name, operator)
    lines += ["static const KopeCustomOp kope_ops[] = {"]
    lines += [f"    {{KOPE_BASE, &kope_op_{each.function.name}}}," for each in operators]
    return "\n".join([*lines, "};", ""])


def quoted(text: str) -> str:
    """A string of C, its bytes beyond ASCII as octal."""
    plain = {ord(each) for each in '\\"?'}
    spelled = (
        chr(byte) if 32 <= byte < 127 and byte not in plain else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{"".join(spelled)}"'


def extents(shape: Sequence[int]) -> str:
    """A constant array of C, which has at least one element."""
    return f"(const int64_t[]){{{', '.join(map(str, shape)) or '0'}}}"


def _operator(name: str, operator: Operator) -> Iterator[str]:
    function = operator.function
    passed = ", ".join(f"params[{i}]" for i in range(len(function.params)))
    yield f"static int kope_call_{function.name}(void* const* params) {{"
    yield f"  return {name}_{function.name}({passed});"
    yield "}"
    yield ""
    yield f"static const KopeEdge kope_edges_{function.name}[] = {{"
    yield from (f"    {_edge(operator, param)}," for param in function.params)
    yield "};"
    yield ""
    yield f"static const KopeOp kope_op_{function.name} = {{"
    yield f"    {quoted(operator.domain)}, {quoted(operator.name)},"
    yield f"    kope_call_{function.name}, {name}_message,"
    yield f"    {len(function.params)}, kope_edges_{function.name}}};"
    yield ""


def _edge(operator: Operator, param: Param) -> str:
    spec = param.spec
    facts = (
        quoted(operator.edge_name(param)),
        quoted(spec.dtype),
        element_type(param),
        int(param.is_output),
        len(spec.shape),
        num_bytes(spec),
        extents(spec.shape),
    )
    return f"{{{', '.join(map(str, facts))}}}"
