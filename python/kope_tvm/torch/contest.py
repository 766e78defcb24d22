# SPDX-License-Identifier: Apache-2.0
"""A part by torch beside the same part by TVM: as right, and faster by more than the noise."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any

import torch

from kope_tvm.outcome import Measurement
from kope_tvm.performance import Comparison, compared

_CASES = 3
_TURNS = 15
_TURN_SECS = 2e-3
_PAUSE_SECS = 30e-3
"""Threads of the one that ran before spin for a while, in wait for more work."""
_ERROR_FACTOR = 4.0
"""So many times torch's own distance from float64 is as right as torch."""
_LEAST_ERROR = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-12}

Call = Callable[..., Any]


Place = Callable[[], AbstractContextManager[Any]]


def contest(
    theirs: Any,
    ours: Call,
    inputs: Sequence[Any],
    fixed: Sequence[int] = (),
    place: Place = nullcontext,
) -> Comparison:
    """Ours beside torch's on the inputs given and on others like them; `fixed` are left as is.

    `theirs` is a torch module. `place` is where ours is called, several times in a row: torch is
    slower on the one core that suits TVM's caller.
    """
    wrong = fault(theirs, ours, inputs, fixed)
    if wrong:
        return Comparison(False, False, False, 0.0, 1.0, "E_NUMERICS", wrong)
    theirs_secs, ours_secs = in_turns(((theirs, nullcontext), (ours, place)), inputs)
    return compared(
        Measurement(ours_secs, is_proven=True), Measurement(theirs_secs, is_proven=True)
    )


def fault(theirs: Any, ours: Call, inputs: Sequence[Any], fixed: Sequence[int]) -> str:
    """What is wrong with ours; empty where it is as near to float64 as torch is."""
    exact = copy.deepcopy(theirs).double()
    for case in range(_CASES):
        given = [each if not case or i in fixed else _like(each) for i, each in enumerate(inputs)]
        kept = [each.clone() for each in given]
        found = _flat(ours(*given))
        if any(not torch.equal(a, b) for a, b in zip(given, kept, strict=True) if _is_whole(a)):
            return f"case {case}: an input was written to"
        wanted = _flat(theirs(*given))
        truth = _flat(exact(*map(_double, given)))
        for at, (a, b, true) in enumerate(zip(found, wanted, truth, strict=True)):
            reason = _differs(a, b, true)
            if reason:
                return f"case {case}, output {at}: {reason}"
    return ""


def _differs(found: Any, wanted: Any, truth: Any) -> str:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{list(found.shape)} {found.dtype}, torch {list(wanted.shape)} {wanted.dtype}"
    if not wanted.is_floating_point():
        return "" if torch.equal(found, wanted) else "other integers than torch's"
    if not torch.equal(torch.isfinite(found), torch.isfinite(wanted)):
        return "not finite where torch is, or the other way round"
    ours, theirs = _distance(found, truth), _distance(wanted, truth)
    allowed = max(_ERROR_FACTOR * theirs, _LEAST_ERROR[str(wanted.dtype).partition(".")[2]])
    return f"{ours:.2g} from float64, torch {theirs:.2g}" if ours > allowed else ""


def _distance(found: Any, truth: Any) -> float:
    """Over the norm of the truth, where that is finite."""
    known = torch.isfinite(truth) & torch.isfinite(found)
    gap = (found.double() - truth.double())[known].norm()
    return float(gap / truth.double()[known].norm().clamp_min(1e-30))


def in_turns(
    contenders: Sequence[tuple[Call, Place]], inputs: Sequence[Any]
) -> list[tuple[float, ...]]:
    """Seconds of a call of each, a value a turn; a turn is long enough to be read off a clock."""
    numbers = []
    for contender in contenders:
        secs = median(_timed(*contender, inputs, 1) for _ in range(3))
        numbers.append(max(1, round(_TURN_SECS / secs)))
    turns = [
        [_timed(*each, inputs, number) for each, number in zip(contenders, numbers, strict=True)]
        for _ in range(_TURNS)
    ]
    return [tuple(secs) for secs in zip(*turns, strict=True)]


def _timed(call: Call, place: Place, inputs: Sequence[Any], number: int) -> float:
    is_gpu = any(each.is_cuda for each in inputs)
    time.sleep(_PAUSE_SECS)
    with place():
        call(*inputs)
        if is_gpu:
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(number):
            call(*inputs)
        if is_gpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / number


def _like(tensor: Any) -> Any:
    """Other numbers of the same spread; integers and booleans mean something, and stay."""
    if not tensor.is_floating_point():
        return tensor
    return torch.randn_like(tensor) * tensor.std(correction=0) + tensor.mean()


def _double(tensor: Any) -> Any:
    return tensor.double() if tensor.is_floating_point() else tensor


def _is_whole(tensor: Any) -> bool:
    return not tensor.is_floating_point() or not bool(torch.isnan(tensor).any())


def _flat(outputs: Any) -> list[Any]:
    return [*outputs] if isinstance(outputs, tuple | list) else [outputs]
