# SPDX-License-Identifier: Apache-2.0
"""Reads the steps of a plan out of a model's reply: untrusted JSON in, steps or a refusal out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from kope_tvm.outcome import Verdict, refuse
from kope_tvm.plan.argument import Argument
from kope_tvm.plan.primitive import Primitive
from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.spelling import PRIMITIVE_KEYS, canonical_arguments, canonical_primitive
from kope_tvm.plan.step_error import StepError, sentence, shown
from kope_tvm.proposal import Step

MOST_STEPS = 64
_MOST_KEYS = 16


def read_steps(given: object) -> tuple[Step, ...] | Verdict:
    """The steps that parsed JSON describes; the refusal names the first illegal one, from 1."""
    if not isinstance(given, list | tuple) or not given:
        return refuse("plan", "E_STEP", f"steps: expected a list of steps, got {shown(given)}")
    if len(given) > MOST_STEPS:
        return refuse("plan", "E_STEP", f"steps: {len(given)} steps, at most {MOST_STEPS}")
    steps: list[Step] = []
    for number, one in enumerate(given, 1):
        step = read_step(number, one)
        if isinstance(step, Verdict):
            return step
        steps.append(step)
    return tuple(steps)


def read_step(number: int, given: object) -> Step | Verdict:
    """One step out of parsed JSON; `number` is its place in the plan, from 1."""
    if not isinstance(given, dict):
        reason = f"step {number}: expected an object, got {shown(given)}"
        return refuse("plan", "E_STEP", reason)
    key = next((key for key in PRIMITIVE_KEYS if key in given), "do")
    named = given.get(key)
    if not isinstance(named, str):
        reason = f"step {number}: expected a primitive's name by `do`, got {shown(named)}"
        return refuse("plan", "E_STEP", reason)
    primitive = canonical_primitive(named)
    args = {name: value for name, value in given.items() if name != key}
    try:
        known = _known(primitive)
        args = _spelt(known, args)
        return _read(known, args)
    except StepError as error:
        spelt = primitive if primitive in primitives() else shown(named)
        return refuse("plan", "E_STEP", sentence(number, spelt, args, error))


def _known(primitive: str) -> Primitive:
    if primitive in primitives():
        return primitives()[primitive]
    near = get_close_matches(primitive.removeprefix("unsafe_")[:64], primitives(), cutoff=0.0)
    why = "refused as unsafe" if primitive.startswith("unsafe_") else "no such primitive"
    raise StepError("", f"{why}; nearest: {near[0]}")


def _spelt(primitive: Primitive, given: dict[Any, Any]) -> dict[Any, Any]:
    known = [argument.name for argument in primitive.arguments]
    if len(given) > _MOST_KEYS:
        raise StepError("keys", f"{len(given)} of them; arguments: {', '.join(known)}")
    return canonical_arguments(given, known)


def _read(primitive: Primitive, given: Mapping[Any, Any]) -> Step:
    known = {argument.name: argument for argument in primitive.arguments}
    _check_keys(given, known)
    args: dict[str, object] = {}
    for name, argument in known.items():
        if name not in given and argument.is_required:
            raise StepError(name, f"missing; arguments: {', '.join(known)}")
        if name in given:
            args[name] = _value(argument, given[name])
    return Step(primitive.name, args)


def _check_keys(given: Mapping[Any, Any], known: Collection[str]) -> None:
    odd = next((key for key in given if key not in known), None)
    if odd is not None:
        raise StepError(shown(odd), f"not an argument of it; arguments: {', '.join(known)}")


def _value(argument: Argument, given: object) -> object:
    try:
        return argument.read(given)
    except StepError as error:
        raise StepError(argument.name, error.reason) from None
