# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of one operator, as ONNX and ONNX Runtime number and name them."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.c_package.plan import CFunction, Param

ELEMENT_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}
"""TensorProto.DataType of ONNX; ONNX Runtime's C interface has the same numbers."""


def domain_of(library: str) -> str:
    """A session takes in one library a domain only, so that each has its own."""
    return f"kope.{library}"


@dataclass(frozen=True)
class Operator:
    """One function of a library as an operator."""

    domain: str
    name: str
    function: CFunction

    @property
    def inputs(self) -> tuple[Param, ...]:
        return tuple(each for each in self.function.params if not each.is_output)

    @property
    def outputs(self) -> tuple[Param, ...]:
        return tuple(each for each in self.function.params if each.is_output)

    def edge_name(self, param: Param) -> str:
        """What the model calls it; what C does where the model calls two alike."""
        names = [each.spec.name for each in self.function.params]
        is_clear = param.spec.name and names.count(param.spec.name) == 1
        return param.spec.name if is_clear else param.name


def element_type(param: Param) -> int:
    """The number of a tensor's dtype; a plan has no dtype without one."""
    return ELEMENT_TYPES[param.spec.dtype]
