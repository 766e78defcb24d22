# SPDX-License-Identifier: Apache-2.0
"""A function that MLIR compiled, called with numpy arrays and timed; runs in the worker alone."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kope_tvm.mlir.bindings import execution_engine, ir
from kope_tvm.mlir.lowering import LoweringError

Array = npt.NDArray[Any]

_OPT_LEVEL = 3
_ALIGNMENT = 64
_GUARD_BYTES = 256
_GUARD_BYTE = 0xA5
_POISON_BYTE = 0xCC
_MAX_NUMBER = 1 << 16


@dataclass(frozen=True)
class Tensor:
    """A ranked tensor of static shape, as a function takes or returns it."""

    dtype: str
    """MLIR's word: `f32`, `bf16`, `i8`, ..."""
    shape: tuple[int, ...]

    @property
    def carrier(self) -> np.dtype[Any]:
        """What numpy holds it in; of bfloat16 the bits."""
        names = {"f16": "f2", "f32": "f4", "f64": "f8", "bf16": "u2", "index": "i8", "i1": "u1"}
        return np.dtype(names.get(self.dtype) or f"i{int(self.dtype.lstrip('siu')) // 8}")

    @property
    def poison(self) -> Array:
        """One element that no right function leaves: NaN, or 0xCC bytes."""
        if self.carrier.kind == "f":
            return np.array(np.nan, self.carrier)
        return np.full(self.carrier.itemsize, _POISON_BYTE, np.uint8).view(self.carrier).reshape(())

    def __str__(self) -> str:
        return f"tensor<{'x'.join(map(str, (*self.shape, self.dtype)))}>"


@dataclass(frozen=True)
class Signature:
    """What a function takes and returns."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def signature_of(module: Any, name: str) -> Signature:
    """Of the function of this name, or of the only one where `name` is empty."""
    funcs = [op for op in module.body.operations if op.operation.name == "func.func"]
    named = [op for op in funcs if not name or op.name.value == name]
    if len(named) != 1:
        known = ", ".join(op.name.value for op in funcs) or "none"
        raise LoweringError("build", "E_SIGNATURE", f"no one function {name or 'alone'}: {known}")
    func = named[0]
    inputs = tuple(_tensor(each) for each in func.type.inputs)
    return Signature(func.name.value, inputs, tuple(_tensor(each) for each in func.type.results))


def _tensor(of: Any) -> Tensor:
    if not isinstance(of, ir.RankedTensorType):
        raise LoweringError("build", "E_SIGNATURE", f"{of} is no ranked tensor")
    if not of.has_static_shape:
        raise LoweringError("build", "E_SIGNATURE", f"{of} has no static shape")
    return Tensor(str(of.element_type), tuple(of.shape))


class Slot:
    """One tensor's memory between guard words."""

    def __init__(self, tensor: Tensor) -> None:
        size = int(np.prod(tensor.shape, dtype=np.int64)) * tensor.carrier.itemsize
        raw = np.full(size + 2 * _GUARD_BYTES + _ALIGNMENT, _GUARD_BYTE, np.uint8)
        start = _GUARD_BYTES + -(raw.ctypes.data + _GUARD_BYTES) % _ALIGNMENT
        self._before, self._after = raw[:start], raw[start + size :]
        self.tensor = tensor
        self.view = raw[start : start + size].view(tensor.carrier).reshape(tensor.shape)

    @property
    def is_overrun(self) -> bool:
        return bool((self._before != _GUARD_BYTE).any() or (self._after != _GUARD_BYTE).any())

    @cached_property
    def descriptor(self) -> Any:
        """MLIR's memref: pointer, aligned pointer, offset, sizes, strides."""
        sizes = self.tensor.shape
        strides = [step // self.tensor.carrier.itemsize for step in self.view.strides]
        words = [self.view.ctypes.data, self.view.ctypes.data, 0, *sizes, *strides]
        return (ctypes.c_int64 * len(words))(*words)


class Called:
    """A compiled function and the memory it is called with."""

    def __init__(self, module: Any, signature: Signature) -> None:
        self.signature = signature
        self._engine = _engine(module)
        self._inputs = [Slot(tensor) for tensor in signature.inputs]
        self._outputs = [Slot(tensor) for tensor in signature.outputs]
        self._function = self._found()
        self._packed = self._arguments()

    def __call__(self, arguments: Sequence[Array]) -> tuple[Array, ...]:
        """Copies of the outputs; refuses a call that wrote where it must not."""
        self.fill(arguments)
        self._function(self._packed)
        for slot in (*self._inputs, *self._outputs):
            if slot.is_overrun:
                raise LoweringError("check", "E_GUARD", f"wrote beside {slot.tensor}")
        for slot, given in zip(self._inputs, arguments, strict=True):
            if not np.array_equal(_bits(slot.view), _bits(given)):
                raise LoweringError("check", "E_INPUT_WRITTEN", f"the input {slot.tensor}")
        return tuple(slot.view.copy() for slot in self._outputs)

    def fill(self, arguments: Sequence[Array]) -> None:
        """The inputs in place, the outputs poisoned."""
        if len(arguments) != len(self._inputs):
            told = f"{len(arguments)} arguments, expected {len(self._inputs)}"
            raise LoweringError("build", "E_SIGNATURE", told)
        for slot, given in zip(self._inputs, arguments, strict=True):
            if given.shape != slot.tensor.shape or given.dtype.itemsize != slot.view.itemsize:
                told = f"{given.dtype}{list(given.shape)} for {slot.tensor}"
                raise LoweringError("build", "E_SIGNATURE", told)
            slot.view[...] = given.view(slot.tensor.carrier)
        for slot in self._outputs:
            slot.view[...] = slot.tensor.poison

    def times(self, repeat: int, min_repeat_secs: float) -> tuple[float, ...]:
        """Seconds of one call, one value a repeat."""
        secs = self._mean(1)
        number = min(max(1, round(min_repeat_secs / max(secs, 1e-7))), _MAX_NUMBER)
        return tuple(self._mean(number) for _ in range(repeat))

    def _mean(self, number: int) -> float:
        function, packed = self._function, self._packed
        started = time.perf_counter()
        for _ in range(number):
            function(packed)
        return (time.perf_counter() - started) / number

    def _found(self) -> Callable[[Any], None]:
        address = self._engine.raw_lookup(f"_mlir_ciface_{self.signature.name}")
        if not address:
            raise LoweringError("build", "E_LINK", "the compiled function calls what is not there")
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def _arguments(self) -> Any:
        """Pointers to the pointers to the descriptors, as MLIR's packed functions want them."""
        slots = (*self._inputs, *self._outputs)
        self._pointers = [ctypes.c_void_p(ctypes.addressof(slot.descriptor)) for slot in slots]
        places = [ctypes.addressof(pointer) for pointer in self._pointers]
        return (ctypes.c_void_p * len(places))(*places)


def _engine(module: Any) -> Any:
    try:
        return execution_engine.ExecutionEngine(module, opt_level=_OPT_LEVEL)
    except (RuntimeError, ir.MLIRError) as error:
        raise LoweringError("build", "E_BUILD", str(error)) from error


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
