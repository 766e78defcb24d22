# SPDX-License-Identifier: Apache-2.0
"""What every converter of ours declares: its operators, and the part of each that it covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import onnx
from tvm import ir, relax, tirx
from tvm.relax.frontend.onnx.onnx_frontend import OnnxOpConverter

ANY: tuple[Any, ...] = ()
"""Any value of an attribute."""


class Converter(OnnxOpConverter):
    """From one ONNX node to Relax; whatever is not declared here is refused before conversion."""

    operators: ClassVar[tuple[str, ...]]
    """Qualified names, `com.microsoft::Op` or `ai.onnx::Op`."""
    attributes: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Attributes and the values that are supported of each, `ANY` for all."""
    refused_inputs: ClassVar[Mapping[int, str]] = {}
    """Positions of optional inputs that are not supported, with their names in the standard."""
    refused_outputs: ClassVar[Mapping[int, str]] = {}

    @classmethod
    def refusals(cls, node: onnx.NodeProto) -> Iterator[str]:
        """Say what of `node` is not supported."""
        for attribute in node.attribute:
            yield from cls._attribute_refusals(attribute)
        yield from _present(node.input, cls.refused_inputs, "input")
        yield from _present(node.output, cls.refused_outputs, "output")

    @classmethod
    def _attribute_refusals(cls, attribute: onnx.AttributeProto) -> Iterator[str]:
        value = onnx.helper.get_attribute_value(attribute)
        shown = value.decode() if isinstance(value, bytes) else value
        if attribute.name not in cls.attributes:
            yield f"attribute {attribute.name}={shown!r} is not supported"
            return
        allowed = cls.attributes[attribute.name]
        if allowed and shown not in allowed:
            expected = " or ".join(repr(each) for each in allowed)
            yield f"attribute {attribute.name}={shown!r} is not supported; expected {expected}"


def _present(names: Sequence[str], refused: Mapping[int, str], kind: str) -> Iterator[str]:
    for position, called in refused.items():
        if position < len(names) and names[position]:
            yield f"{kind} {called} is not supported"


def shape_of(expr: relax.Expr) -> tuple[int, ...]:
    """The static extents of a tensor."""
    return tuple(int(extent) for extent in expr.ty.shape.values)


def is_static(expr: relax.Expr) -> bool:
    """Whether all extents of a tensor are known."""
    shape = expr.ty.shape
    return shape is not None and all(isinstance(each, tirx.IntImm) for each in shape.values)


def dtype_of(expr: relax.Expr) -> str:
    """TVM's name of a tensor's element type."""
    return str(expr.ty.dtype)


def result(outputs: Sequence[relax.Expr], attr: Mapping[str, Any]) -> relax.Expr:
    """As many outputs as the node names; TVM takes a lone one bare."""
    wanted = outputs[: attr["tvm_custom"]["num_outputs"]]
    return wanted[0] if len(wanted) == 1 else relax.Tuple(list(wanted))


def is_constant(expr: relax.Expr) -> bool:
    """Whether the value is known now."""
    return isinstance(expr, ir.GenericConst)
