# SPDX-License-Identifier: Apache-2.0
"""What a C function does: which kernels it calls, in which order, on what memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kope_tvm.errors import UsageError
from kope_tvm.tensor_spec import TensorSpec

ALIGNMENT_BYTES = 64
"""What TVM's code takes for granted of every pointer."""
PARAM, ARENA, CONSTANT = 0, 1, 2


@dataclass(frozen=True)
class CType:
    """How C and DLPack call a dtype."""

    name: str
    code: int
    bits: int
    remark: str = ""
    """What the C type alone does not say."""


C_TYPES = {
    **{f"int{bits}": CType(f"int{bits}_t", 0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": CType(f"uint{bits}_t", 1, bits) for bits in (8, 16, 32, 64)},
    "float16": CType("uint16_t", 2, 16, "bits of IEEE half precision"),
    "float32": CType("float", 2, 32),
    "float64": CType("double", 2, 64),
    "bfloat16": CType("uint16_t", 4, 16, "bits of bfloat16"),
    "bool": CType("uint8_t", 6, 8, "0 or 1"),
}


def c_type(spec: TensorSpec) -> CType:
    """The C type of a tensor's elements; UsageError where C has none."""
    found = C_TYPES.get(spec.dtype)
    if found is None or -1 in spec.shape:
        why = "has a symbolic shape" if found else f"is of {spec.dtype}, which C cannot hold"
        raise UsageError(f"{spec}: {why}; expected a fixed shape and one of {', '.join(C_TYPES)}")
    return found


def num_bytes(spec: TensorSpec) -> int:
    """The size of a tensor."""
    return spec.num_elements * c_type(spec).bits // 8


@dataclass(frozen=True)
class Param:
    """One argument of a C function."""

    name: str
    spec: TensorSpec
    is_output: bool


@dataclass(frozen=True)
class Operand:
    """A tensor that a step works on, in one of three places."""

    place: int
    at: int
    """Which parameter, or how many bytes into the arena or the constants."""
    spec: TensorSpec


@dataclass(frozen=True)
class Step:
    """One call of a kernel; a copy of the first operand into the second where it has no name."""

    kernel: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class CFunction:
    """A function of the library."""

    name: str
    source: str
    """What the model calls it."""
    params: tuple[Param, ...]
    steps: tuple[Step, ...]
    arena_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """A whole library before it is compiled."""

    functions: tuple[CFunction, ...]
    kernels: Any
    """The IRModule of all PrimFuncs, each under its symbol."""
    constants: bytes = field(default=b"", repr=False)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The kernels, sorted."""
        steps = (step for function in self.functions for step in function.steps)
        return tuple(sorted({step.kernel for step in steps if step.kernel}))
