# SPDX-License-Identifier: Apache-2.0
"""What the example program is told of an operator: its tensors, and what should come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kope_tvm.c_package.example import allowed_error, stored_stride, stored_values
from kope_tvm.c_package.plan import Param, c_type
from kope_tvm.ort_package.edges import Operator, element_type
from kope_tvm.ort_package.tables import extents, quoted


def sample(operator: Operator, outputs: Sequence[np.ndarray], made_by: Sequence[str]) -> str:
    """The text of `sample.h`."""
    lines = [f"// {line}" for line in made_by]
    lines += [f"#define NUM_INPUTS {len(operator.inputs)}"]
    lines += [f"#define NUM_OUTPUTS {len(operator.outputs)}", ""]
    for number, array in enumerate(outputs):
        lines += [f"static const double values_{number}[] = {{", *stored_values(array), "};", ""]
    lines += ["static const Edge inputs[] = {"]
    lines += [f"    {_edge(operator, each)}," for each in operator.inputs]
    lines += ["    {0}};", "", "static const Edge outputs[] = {"]
    lines += [f"    {_edge(operator, each)}," for each in operator.outputs]
    lines += ["    {0}};", "", "static const Wanted wanted[] = {", *_wanted(operator, outputs)]
    return "\n".join([*lines, "    {0}};", ""])


def _edge(operator: Operator, param: Param) -> str:
    kind, shape = c_type(param.spec), param.spec.shape
    facts = (element_type(param), kind.code, kind.bits, param.spec.num_elements, len(shape))
    name = quoted(operator.edge_name(param))
    return f"{{{name}, {', '.join(map(str, facts))}, {extents(shape)}}}"


def _wanted(operator: Operator, outputs: Sequence[np.ndarray]) -> Iterator[str]:
    for number, (param, array) in enumerate(zip(operator.outputs, outputs, strict=True)):
        values = f"values_{number}"
        count = f"sizeof {values} / sizeof *{values}"
        allowed = allowed_error(param.spec, array)
        yield f"    {{{values}, {count}, {stored_stride(array)}, {allowed!r}}},"
