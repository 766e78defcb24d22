# SPDX-License-Identifier: Apache-2.0
"""A function of a library as ggml sees it: types and extents of its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.c_package.plan import CFunction, Param
from kope_tvm.errors import UsageError
from kope_tvm.ggml_blocks import Q4_0, Q8_0, WEIGHTS
from kope_tvm.tensor_spec import TensorSpec

MAX_DIMS = 4
"""GGML_MAX_DIMS."""
MAX_INPUTS = 10
"""GGML_MAX_SRC."""
_TYPES = {
    "float32": "GGML_TYPE_F32",
    "float16": "GGML_TYPE_F16",
    "bfloat16": "GGML_TYPE_BF16",
    "int8": "GGML_TYPE_I8",
    "int16": "GGML_TYPE_I16",
    "int32": "GGML_TYPE_I32",
    "int64": "GGML_TYPE_I64",
}
_BLOCKS = {blocks.num_bytes: blocks for blocks in (Q4_0, Q8_0)}


@dataclass(frozen=True)
class GgmlTensor:
    """One tensor; ggml counts extents from the innermost."""

    name: str
    type: str
    extents: tuple[int, ...]

    @property
    def is_quantised(self) -> bool:
        """Whether ggml has to unpack it."""
        return self.type.startswith("GGML_TYPE_Q")

    def __str__(self) -> str:
        return f"{self.name} {self.type.removeprefix('GGML_TYPE_')} {list(self.extents)}"


@dataclass(frozen=True)
class GgmlOperator:
    """One function with one output, its last parameter."""

    function: CFunction
    inputs: tuple[GgmlTensor, ...]
    output: GgmlTensor
    is_shared: bool
    """Whether several threads may compute it together."""

    @property
    def is_mul_mat(self) -> bool:
        """Whether `ggml_mul_mat` of the same tensors is the same product."""
        return (
            [each.is_quantised for each in self.inputs] == [False, True]
            and (self.inputs[0].type, self.output.type) == ("GGML_TYPE_F32",) * 2
            and self.inputs[0].extents[0] == self.inputs[1].extents[0]
            and self.output.extents[:2] == (self.inputs[1].extents[1], self.inputs[0].extents[1])
        )


def operator_of(function: CFunction, *, is_shared: bool) -> GgmlOperator:
    """UsageError names what ggml has no type or no room for."""
    outputs = [each for each in function.params if each.is_output]
    inputs = [each for each in function.params if not each.is_output]
    if len(outputs) != 1 or not 1 <= len(inputs) <= MAX_INPUTS:
        raise UsageError(
            f"{function.source}: {len(inputs)} inputs and {len(outputs)} outputs; expected at "
            f"most {MAX_INPUTS} inputs and one output, as an operator of ggml has"
        )
    tensors = tuple(map(_tensor, inputs))
    return GgmlOperator(function, tensors, _tensor(outputs[0]), is_shared)


def _tensor(param: Param) -> GgmlTensor:
    spec = param.spec
    blocks = _BLOCKS.get(spec.shape[-1]) if spec.dtype == "uint8" and len(spec.shape) > 1 else None
    if blocks and not param.is_output:
        *outer, num_blocks, _ = spec.shape
        extents = (*outer, num_blocks * WEIGHTS)
        return _fitting(param.name, f"GGML_TYPE_{blocks.name.upper()}", extents, spec)
    if spec.dtype not in _TYPES:
        raise UsageError(
            f"{spec}: ggml has no such type; expected one of {', '.join(_TYPES)}, or uint8 blocks "
            f"of {' or '.join(map(str, _BLOCKS))} bytes for an input"
        )
    return _fitting(param.name, _TYPES[spec.dtype], spec.shape, spec)


def _fitting(name: str, kind: str, shape: tuple[int, ...], spec: TensorSpec) -> GgmlTensor:
    """The extents in ggml's order, as many as it always has."""
    if len(shape) > MAX_DIMS:
        raise UsageError(f"{spec} has {len(shape)} dimensions; expected at most {MAX_DIMS}")
    reversed_ = tuple(reversed(shape))
    return GgmlTensor(name, kind, reversed_ + (1,) * (MAX_DIMS - len(reversed_)))
