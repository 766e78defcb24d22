# SPDX-License-Identifier: Apache-2.0
"""How often a function is called: long enough for an exact time, no longer where it is slow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kope_tvm.measure.config import MeasureConfig

SLOW_SECS = 0.3
"""A function whose first call takes longer gets one repeat of one call."""
_LONG_CALL_SECS = 0.01
"""Calls as long as this are timed here: Python's microsecond is nothing to them, and TVM's own
time evaluator would make another call first."""
_PILOT_SHARE = 0.1
"""Of a repeat, to find out how many calls make up a whole one."""
_MARGIN = 1.02


@dataclass(frozen=True)
class Calls:
    """A compiled function with its arguments."""

    lib: Any
    name: str
    function: Callable[..., Any]
    values: Sequence[Any]
    device: Any

    def call(self) -> float:
        """Seconds of one call, as the caller sees it."""
        started = time.perf_counter()
        self.function(*self.values)
        self.device.sync()
        return time.perf_counter() - started

    def evaluate(self, number: int, repeat: int = 1, **options: Any) -> tuple[float, ...]:
        """TVM's time evaluator, which calls once more before it starts."""
        evaluator = self.lib.time_evaluator(
            self.name, self.device, number=number, repeat=repeat, **options
        )
        return tuple(float(secs) for secs in evaluator(*self.values).results)


def run_secs(
    calls: Calls, config: MeasureConfig, first_secs: float, hopeless_secs: float | None
) -> tuple[float, ...]:
    """Seconds of one call, one value a repeat, of a function whose first call took `first_secs`."""
    if hopeless_secs is not None and first_secs > hopeless_secs:
        return (first_secs,)
    if config.enable_cpu_cache_flush:
        return calls.evaluate(
            config.number,
            config.repeat,
            min_repeat_ms=int(config.min_repeat_ms),
            f_preproc="cache_flush_cpu_non_first_arg",
        )
    secs = calls.call()
    if secs < _LONG_CALL_SECS:
        return _of_short_calls(calls, config, secs)
    return _of_long_calls(calls, config, secs, is_slow=first_secs > SLOW_SECS)


def _of_short_calls(calls: Calls, config: MeasureConfig, secs: float) -> tuple[float, ...]:
    repeat_secs = config.min_repeat_ms / 1e3
    (secs,) = calls.evaluate(max(1, int(_PILOT_SHARE * repeat_secs / secs)))
    return calls.evaluate(_number(config, secs), config.repeat)


def _of_long_calls(
    calls: Calls, config: MeasureConfig, secs: float, *, is_slow: bool
) -> tuple[float, ...]:
    """The call that took `secs` counts."""
    repeat_secs = config.min_repeat_ms / 1e3
    number = 1 if secs >= repeat_secs else _number(config, secs)
    repeat = 1 if is_slow or secs > 4 * repeat_secs else config.repeat
    each = [secs, *(calls.call() for _ in range(number * repeat - 1))]
    return tuple(math.fsum(each[start::repeat]) / number for start in range(repeat))


def _number(config: MeasureConfig, secs: float) -> int:
    return max(config.number, math.ceil(_MARGIN * config.min_repeat_ms / 1e3 / secs))
