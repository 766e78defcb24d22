# SPDX-License-Identifier: Apache-2.0
"""A compiled part as calls of its functions in order: quicker than TVM's virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tvm import IRModule, ir, relax

from kope_tvm.call_tir import called_name


@dataclass(frozen=True)
class Step:
    """One call: positions of its arguments among all values so far, and what it makes."""

    name: str
    arguments: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Steps:
    """Values are the inputs, then the constants, then each step's output."""

    calls: tuple[Step, ...]
    constants: tuple[Any, ...]
    outputs: tuple[int, ...]

    def bound(
        self, functions: Mapping[str, Callable[..., Any]], device: Any
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of the inputs, tensors of torch on `device`."""
        constants = [each.to(device) for each in self.constants]
        calls = [(functions[step.name], step) for step in self.calls]

        def run(inputs: Sequence[Any]) -> list[Any]:
            values = [*inputs, *constants]
            for function, step in calls:
                made = torch.empty(step.shape, dtype=step.dtype, device=device)
                function(*(values[at] for at in step.arguments), made)
                values.append(made)
            return [values[at] for at in self.outputs]

        return run


def steps_of(mod: IRModule) -> Steps | None:
    """The steps of `main`; None where it does anything but call functions with one output each."""
    main = mod["main"]
    reader = _Reader([param.name for param in main.params])
    try:
        for block in main.body.blocks:
            for binding in block.bindings:
                reader.read(binding)
        return reader.steps(main.body.body)
    except _OtherError:
        return None


class _OtherError(Exception):
    """Something that is no such step."""


class _Reader:
    def __init__(self, params: list[str]) -> None:
        self._places: dict[str, tuple[str, int]] = {
            name: ("input", at) for at, name in enumerate(params)
        }
        self._tuples: dict[str, Any] = {}
        self._constants: list[Any] = []
        self._calls: list[tuple[str, list[tuple[str, int]], Any]] = []
        self._num_inputs = len(params)

    def read(self, binding: Any) -> None:
        value, name = binding.value, binding.var.name
        if isinstance(value, relax.Tuple):
            self._tuples[name] = value
        elif isinstance(value, relax.Var):
            self._places[name] = self._place(value)
        elif (called := called_name(value)) and len(value.args) == 2:
            places = [self._place(each) for each in value.args[1].fields]
            self._places[name] = ("step", len(self._calls))
            self._calls.append((called, places, binding.var.ty))
        else:
            raise _OtherError

    def steps(self, result: Any) -> Steps:
        fields = result.fields if isinstance(result, relax.Tuple) else None
        if fields is None:
            made = self._tuples.get(result.name)
            fields = [result] if made is None else made.fields
        calls = tuple(
            Step(name, tuple(map(self._position, places)), *_made(ty))
            for name, places, ty in self._calls
        )
        outputs = tuple(self._position(self._place(each)) for each in fields)
        return Steps(calls, tuple(self._constants), outputs)

    def _place(self, expr: Any) -> tuple[str, int]:
        if isinstance(expr, ir.GenericConst):
            self._constants.append(torch.from_dlpack(expr.value))
            return "constant", len(self._constants) - 1
        if not isinstance(expr, relax.Var) or expr.name not in self._places:
            raise _OtherError
        return self._places[expr.name]

    def _position(self, place: tuple[str, int]) -> int:
        kind, at = place
        before = {"input": 0, "constant": self._num_inputs}
        return at + before.get(kind, self._num_inputs + len(self._constants))


def _made(ty: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and type of a step's output."""
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        raise _OtherError
    return tuple(int(each) for each in ty.shape.values), getattr(torch, str(ty.dtype))
