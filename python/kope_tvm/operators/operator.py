# SPDX-License-Identifier: Apache-2.0
"""An operator as data: its parameters, and the same function for TVM, for ONNX and for numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tvm
from tvm import te

from kope_tvm.errors import ModelError
from kope_tvm.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import numpy as np

FLOATS = ("float32", "float16")


@dataclass(frozen=True)
class Parameters:
    """Values for every parameter of one operator."""

    sizes: Mapping[str, int]
    dtype: str

    def __getitem__(self, name: str) -> int:
        return self.sizes[name]

    def shape(self, names: str) -> tuple[int, ...]:
        """The sizes of the space-separated `names`."""
        return tuple(self.sizes[name] for name in names.split())


@dataclass(frozen=True)
class Node:
    """One ONNX node, of another domain as `domain::Op`; a `Constant` holds its array as `value`."""

    op_type: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    more_outputs: tuple[str, ...] = ()
    """Those that nobody reads, and the operator has all the same."""


@dataclass(frozen=True)
class Operator:
    """One operator of the suite."""

    name: str
    summary: str
    sizes: Mapping[str, int]
    """Size parameters with their defaults."""
    inputs: Callable[[Parameters], tuple[TensorSpec, ...]]
    compute: Callable[..., te.Tensor]
    """From the parameters and one placeholder an input, the output."""
    nodes: Callable[[Parameters], tuple[Node, ...]]
    """The ONNX graph; the last node's output is the operator's."""
    evaluate: Callable[..., np.ndarray]
    """From the parameters and one array an input, the output."""
    dtypes: tuple[str, ...] = FLOATS
    """Allowed values of `dtype`; the first is the default."""
    zero_allowed: frozenset[str] = frozenset()
    """Size parameters that may be 0, e.g. a padding."""
    weights: frozenset[str] = frozenset()
    """Inputs that a model mostly knows when it is compiled."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """By input that holds indices, the size parameter that they stay below."""

    @property
    def signature(self) -> str:
        """Parameters with their defaults, e.g. `m=512,n=512,k=512,dtype=float32`."""
        return self.spell(Parameters(self.sizes, self.dtypes[0])).partition(":")[2]

    def spell(self, parameters: Parameters) -> str:
        """The operator spec without its `op:`."""
        sizes = ",".join(f"{name}={size}" for name, size in parameters.sizes.items())
        return f"{self.name}:{sizes},dtype={parameters.dtype}"

    def bind(self, **given: int | str) -> BoundOperator:
        """Give it the parameters that differ from their defaults."""
        for name in given:
            if name not in self.sizes and name != "dtype":
                raise ModelError(
                    f"unknown parameter {name!r} of operator {self.name!r}; "
                    f"expected {self.signature}"
                )
        sizes = {name: self._size(name, given.get(name, size)) for name, size in self.sizes.items()}
        dtype = str(given.get("dtype", self.dtypes[0]))
        if dtype not in self.dtypes:
            raise ModelError(
                f"dtype {dtype!r} of operator {self.name!r}; "
                f"expected one of {', '.join(self.dtypes)}"
            )
        return BoundOperator(self, Parameters(sizes, dtype))

    def _size(self, name: str, value: int | str) -> int:
        least = 0 if name in self.zero_allowed else 1
        try:
            size = int(value)
        except ValueError:
            size = least - 1
        if size < least:
            raise ModelError(
                f"{name}={value} of operator {self.name!r}; expected an integer of at least {least}"
            )
        return size

    def tir(self, **given: int | str) -> tvm.IRModule:
        """Return the untuned function, as `main`."""
        return self.bind(**given).tir()

    def onnx(self, **given: int | str) -> bytes:
        """Return the same function as an ONNX model."""
        return self.bind(**given).onnx()

    def reference(self, *arrays: np.ndarray, **given: int | str) -> np.ndarray:
        """Compute the output with numpy."""
        return self.bind(**given).reference(*arrays)


@dataclass(frozen=True)
class BoundOperator:
    """An operator with values for its parameters."""

    operator: Operator
    parameters: Parameters

    @property
    def spec(self) -> str:
        """What a user types for it."""
        return f"op:{self.operator.spell(self.parameters)}"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.operator.inputs(self.parameters)

    @property
    def output(self) -> TensorSpec:
        return _spec_of(self._tensors()[-1])

    def tir(self) -> tvm.IRModule:
        """Return the untuned function, as `main`."""
        func = te.create_prim_func(self._tensors())
        return tvm.IRModule({"main": func.with_attr("tirx.noalias", True)})

    def onnx(self) -> bytes:
        """Return the same function as an ONNX model."""
        from kope_tvm.onnx_import import graph_bytes

        return graph_bytes(
            self.operator.name, self.inputs, self.operator.nodes(self.parameters), self.output
        )

    def reference(self, *arrays: np.ndarray) -> np.ndarray:
        """Compute the output with numpy."""
        return self.operator.evaluate(self.parameters, *arrays)

    def _tensors(self) -> list[te.Tensor]:
        args = [te.placeholder(spec.shape, spec.dtype, spec.name) for spec in self.inputs]
        try:
            return [*args, self.operator.compute(self.parameters, *args)]
        except ValueError as error:
            raise ModelError(f"{self.spec} has no output: {str(error).strip()}") from error


def _spec_of(tensor: te.Tensor) -> TensorSpec:
    return TensorSpec(
        tensor.op.name, tuple(int(extent) for extent in tensor.shape), str(tensor.dtype)
    )
