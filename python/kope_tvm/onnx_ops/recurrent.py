# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN, unrolled: each step is the same two or three kernels, tuned once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import onnx
from tvm import relax, te, tirx

from kope_tvm.onnx_ops.converter import ANY, Converter, result, shape_of

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_DATA, _WEIGHT, _RECURRENCE, _BIAS, _LENGTHS, _STATE, _CELL, _PEEPHOLES = range(8)


@dataclass(frozen=True)
class Weights:
    """One direction's weights, transposed: [inputs or hidden, gates * hidden]."""

    inputs: relax.Expr
    recurrence: relax.Expr
    input_bias: relax.Expr | None
    state_bias: relax.Expr | None


class _Recurrent(Converter):
    """What the three share: directions, unrolling and outputs."""

    activations: ClassVar[tuple[str, ...]]
    states: ClassVar[tuple[int, ...]] = (_STATE,)
    """Positions of the inputs that hold initial states."""
    attributes = {"direction": _DIRECTIONS, "hidden_size": ANY, "layout": (0,)}
    refused_inputs = {_LENGTHS: "sequence_lens"}

    @classmethod
    def _attribute_refusals(cls, attribute: onnx.AttributeProto) -> Iterator[str]:
        if attribute.name != "activations":
            yield from super()._attribute_refusals(attribute)
            return
        given = [each.decode() for each in attribute.strings]
        usual = list(cls.activations)
        if [each.lower() for each in given] not in (usual, usual * 2):
            yield f"attribute activations={given} is not supported; expected {usual}"

    @classmethod
    def _impl_v7(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        directions = shape_of(inputs[_WEIGHT])[0]
        is_reverse = attr.get("direction", b"forward") == b"reverse"
        found = [
            cls._direction(bb, inputs, attr, at, is_reverse or at == 1) for at in range(directions)
        ]
        steps = [relax.op.stack([run[0] for run in found], axis=1)]
        last = [
            relax.op.stack([run[1][state] for run in found], axis=0)
            for state in range(len(cls.states))
        ]
        return result([bb.emit(each) for each in (*steps, *last)], attr)

    @classmethod
    def _direction(
        cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, at: int, is_reverse: bool
    ) -> tuple[relax.Expr, Sequence[relax.Expr]]:
        """All hidden states, [steps, batch, hidden], and the last of every state."""
        length, batch, _ = shape_of(inputs[_DATA])
        hidden = shape_of(inputs[_RECURRENCE])[2]
        weights = _weights(bb, inputs, at)
        gates = bb.emit(relax.op.matmul(inputs[_DATA], weights.inputs))
        parts = bb.emit(relax.op.split(gates, length, axis=0)) if length > 1 else None
        states = [_initial(bb, inputs[state], at, batch, hidden) for state in cls.states]
        hiddens: list[Any] = [None] * length
        for step in reversed(range(length)) if is_reverse else range(length):
            one = gates if parts is None else bb.emit(relax.TupleGetItem(parts, step))
            states = cls._step(bb, one, states, weights, attr)
            hiddens[step] = states[0]
        return bb.emit(relax.op.stack(hiddens, axis=0)), states

    @classmethod
    def _step(
        cls,
        bb: relax.BlockBuilder,
        gates: relax.Expr,
        states: list[relax.Expr],
        weights: Weights,
        attr: Any,
    ) -> list[relax.Expr]:
        """The states after one step; `gates` is [1, batch, gates * hidden], without any bias."""
        raise NotImplementedError


def _weights(bb: relax.BlockBuilder, inputs: Any, at: int) -> Weights:
    def of(expr: relax.Expr) -> relax.Expr:
        return relax.op.squeeze(relax.op.strided_slice(expr, [0], [at], [at + 1]), [0])

    both: tuple[Any, Any] = (None, None)
    if inputs[_BIAS] is not None:
        half = shape_of(inputs[_BIAS])[1] // 2
        row = bb.emit(of(inputs[_BIAS]))
        both = (
            bb.emit(relax.op.strided_slice(row, [0], [0], [half])),
            bb.emit(relax.op.strided_slice(row, [0], [half], [2 * half])),
        )
    weight, recurrence = (
        bb.emit(relax.op.permute_dims(of(inputs[each]), [1, 0])) for each in (_WEIGHT, _RECURRENCE)
    )
    return Weights(weight, recurrence, *both)


def _initial(
    bb: relax.BlockBuilder, given: relax.Expr | None, at: int, batch: int, hidden: int
) -> relax.Expr:
    if given is None:
        return bb.emit(relax.op.zeros((batch, hidden), "float32"))
    return bb.emit(relax.op.squeeze(relax.op.strided_slice(given, [0], [at], [at + 1]), [0]))


def _sums(
    bb: relax.BlockBuilder, gates: relax.Expr, state: relax.Expr, weights: Weights
) -> relax.Expr:
    """Every gate before its activation, [batch, gates * hidden]."""
    total = relax.op.add(relax.op.matmul(state, weights.recurrence), relax.op.squeeze(gates, [0]))
    for bias in (weights.input_bias, weights.state_bias):
        if bias is not None:
            total = relax.op.add(total, bias)
    return bb.emit(total)


class LSTM(_Recurrent):
    """Gates in the order input, output, forget, cell."""

    operators = ("ai.onnx::LSTM",)
    activations = ("sigmoid", "tanh", "tanh")
    states = (_STATE, _CELL)
    attributes = {**_Recurrent.attributes, "input_forget": (0,)}
    refused_inputs = {**_Recurrent.refused_inputs, _PEEPHOLES: "P"}

    @classmethod
    def _step(
        cls,
        bb: relax.BlockBuilder,
        gates: relax.Expr,
        states: list[relax.Expr],
        weights: Weights,
        attr: Any,
    ) -> list[relax.Expr]:
        sums = _sums(bb, gates, states[0], weights)
        cell = bb.emit_te(_lstm_cell, sums, states[1], primfunc_name_hint="lstm_cell")
        return [bb.emit_te(_lstm_hidden, sums, cell, primfunc_name_hint="lstm_hidden"), cell]


def _lstm_cell(sums: te.Tensor, cell: te.Tensor) -> te.Tensor:
    hidden = cell.shape[1]

    def element(b: te.IterVar, j: te.IterVar) -> tirx.Expr:
        kept = tirx.sigmoid(sums[b, j + 2 * hidden]) * cell[b, j]
        return kept + tirx.sigmoid(sums[b, j]) * tirx.tanh(sums[b, j + 3 * hidden])

    return te.compute(cell.shape, element, name="cell")


def _lstm_hidden(sums: te.Tensor, cell: te.Tensor) -> te.Tensor:
    hidden = cell.shape[1]
    return te.compute(
        cell.shape,
        lambda b, j: tirx.sigmoid(sums[b, j + hidden]) * tirx.tanh(cell[b, j]),
        name="hidden",
    )


class GRU(_Recurrent):
    """Gates in the order update, reset, hidden."""

    operators = ("ai.onnx::GRU",)
    activations = ("sigmoid", "tanh")
    attributes = {**_Recurrent.attributes, "linear_before_reset": ANY}

    @classmethod
    def _step(
        cls,
        bb: relax.BlockBuilder,
        gates: relax.Expr,
        states: list[relax.Expr],
        weights: Weights,
        attr: Any,
    ) -> list[relax.Expr]:
        (state,) = states
        hidden = shape_of(state)[1]
        fed = relax.op.squeeze(gates, [0])
        fed = bb.emit(_plus(fed, weights.input_bias))
        kept = bb.emit(_plus(relax.op.matmul(state, weights.recurrence), weights.state_bias))
        if not attr.get("linear_before_reset", 0):
            reset = bb.emit_te(_gru_reset, fed, kept, state, primfunc_name_hint="gru_reset")
            columns = relax.op.strided_slice(weights.recurrence, [1], [2 * hidden], [3 * hidden])
            turned = relax.op.matmul(reset, bb.emit(columns))
            if weights.state_bias is not None:
                row = relax.op.strided_slice(weights.state_bias, [0], [2 * hidden], [3 * hidden])
                turned = relax.op.add(turned, bb.emit(row))
            late = bb.emit(turned)
            return [bb.emit_te(_gru_late, fed, kept, state, late, primfunc_name_hint="gru")]
        return [bb.emit_te(_gru_linear, fed, kept, state, primfunc_name_hint="gru")]


def _plus(total: relax.Expr, bias: relax.Expr | None) -> relax.Expr:
    return total if bias is None else relax.op.add(total, bias)


def _gate(fed: te.Tensor, kept: te.Tensor, b: Any, at: Any) -> tirx.Expr:
    return tirx.sigmoid(fed[b, at] + kept[b, at])


def _gru_reset(fed: te.Tensor, kept: te.Tensor, state: te.Tensor) -> te.Tensor:
    hidden = state.shape[1]
    return te.compute(
        state.shape, lambda b, j: _gate(fed, kept, b, j + hidden) * state[b, j], name="reset"
    )


def _gru_late(fed: te.Tensor, kept: te.Tensor, state: te.Tensor, late: te.Tensor) -> te.Tensor:
    """`late` is the reset state times its weights."""
    hidden = state.shape[1]

    def element(b: te.IterVar, j: te.IterVar) -> tirx.Expr:
        update = _gate(fed, kept, b, j)
        fresh = tirx.tanh(fed[b, j + 2 * hidden] + late[b, j])
        return (1.0 - update) * fresh + update * state[b, j]

    return te.compute(state.shape, element, name="hidden")


def _gru_linear(fed: te.Tensor, kept: te.Tensor, state: te.Tensor) -> te.Tensor:
    """The reset gate multiplies what the weights made of the state."""
    hidden = state.shape[1]

    def element(b: te.IterVar, j: te.IterVar) -> tirx.Expr:
        update, reset = _gate(fed, kept, b, j), _gate(fed, kept, b, j + hidden)
        fresh = tirx.tanh(fed[b, j + 2 * hidden] + reset * kept[b, j + 2 * hidden])
        return (1.0 - update) * fresh + update * state[b, j]

    return te.compute(state.shape, element, name="hidden")


class RNN(_Recurrent):
    """One gate: tanh of both products."""

    operators = ("ai.onnx::RNN",)
    activations = ("tanh",)

    @classmethod
    def _step(
        cls,
        bb: relax.BlockBuilder,
        gates: relax.Expr,
        states: list[relax.Expr],
        weights: Weights,
        attr: Any,
    ) -> list[relax.Expr]:
        return [bb.emit(relax.op.tanh(_sums(bb, gates, states[0], weights)))]


CONVERTERS = (LSTM, GRU, RNN)
