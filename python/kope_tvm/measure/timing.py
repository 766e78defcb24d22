# SPDX-License-Identifier: Apache-2.0
"""How often a function is called: long enough for an exact time, no longer where it is slow.

On a host call after call, caches warm; on a GPU each call alone, its cache cold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from kope_tvm.measure.config import MeasureConfig

SLOW_SECS = 0.3
"""A function whose first call takes longer gets one repeat of one call."""
SLOW_REPEATS = 4.0
"""So does one with a call that lasts this many times `min_repeat_ms`."""
_LONG_CALL_SECS = 1e-4
"""Python's microsecond a call is nothing to calls as long as this. Timing them here ends a repeat
when it is long enough; TVM's own time evaluator doubles its calls and starts again."""
_PILOT_SECS = 5e-3
FLUSH_BYTES = 256 << 20
"""Copied before each call on a GPU, by its own queue: several times the largest second-level cache,
and long enough that the call behind it is queued before it ends.
"""
_FLUSH_SECS = 2e-4
_LAUNCH_SECS = 1e-3
"""What a single call on a GPU may take beside its own time, as the caller sees it."""
_MOST_COLD = 200
_LEAST_COLD = 5
_MARGIN = 1.02


@dataclass(frozen=True)
class Calls:
    """A compiled function with its arguments."""

    lib: Any
    name: str
    function: Callable[..., Any]
    values: Sequence[Any]
    device: Any
    is_host: bool
    """The call has ended when it returns."""
    others: Callable[[int], Sequence[Any]] | None = None
    """Arguments of a repeat: the same contents elsewhere."""

    def turn(self, number: int) -> Calls:
        """The calls of one repeat: no result can be kept by address from one to the next."""
        return self if self.others is None else replace(self, values=self.others(number))

    def once(self) -> float:
        """Seconds of one call, as the caller sees it."""
        started = time.perf_counter()
        self.function(*self.values)
        if not self.is_host:
            self.device.sync()
        return time.perf_counter() - started

    def mean(self, number: int, least_secs: float, counted_secs: float = 0.0) -> float:
        """Of `number` calls or more, until they have lasted; a call of `counted_secs` is one."""
        total, count = counted_secs, int(counted_secs > 0)
        while count < number or total < least_secs:
            total += self.once()
            count += 1
        return total / count

    def evaluate(self, number: int, repeat: int, **options: Any) -> tuple[float, ...]:
        """TVM's time evaluator, which calls once more before it starts."""
        evaluator = self.lib.time_evaluator(
            self.name, self.device, number=number, repeat=repeat, **options
        )
        return tuple(float(secs) for secs in evaluator(*self.values).results)


def run_secs(
    calls: Calls, config: MeasureConfig, first_secs: float, hopeless_secs: float | None
) -> tuple[float, ...]:
    """Seconds of one call, one value a repeat, of a function whose first call took `first_secs`."""
    limit_secs = math.inf if hopeless_secs is None else hopeless_secs
    if first_secs > max(limit_secs, SLOW_SECS):
        return (first_secs,)
    if config.enable_cpu_cache_flush:
        # TVM flushes once a repeat: what is called again in one finds its data in the cache.
        repeat = config.number * config.repeat
        return calls.evaluate(1, repeat, f_preproc="cache_flush_cpu_non_first_arg")
    # A first call also starts threads and faults pages in: a quick one gets a second chance.
    secs = calls.once()
    if not calls.is_host:
        is_hopeless = secs > limit_secs + _LAUNCH_SECS
        return (secs,) if is_hopeless else _of_cold_calls(calls, config, secs)
    if secs > limit_secs:
        return (secs,)
    if secs > _LONG_CALL_SECS:
        return _of_long_calls(calls, config, secs, is_slow=first_secs > SLOW_SECS)
    secs = calls.mean(1, min(_PILOT_SECS, config.min_repeat_ms / 1e3))
    number = max(config.number, math.ceil(_MARGIN * config.min_repeat_ms / 1e3 / secs))
    turns = (calls.turn(at) for at in range(config.repeat))
    return tuple(secs for turn in turns for secs in turn.evaluate(number, 1))


def _of_cold_calls(calls: Calls, config: MeasureConfig, secs: float) -> tuple[float, ...]:
    """Medians of calls that find nothing in the cache and a device that is idle but for them."""
    wanted = round(config.min_repeat_ms / 1e3 / (secs + _FLUSH_SECS))
    number = min(max(wanted, _LEAST_COLD), _MOST_COLD)
    turns = (calls.turn(at) for at in range(config.repeat))
    return tuple(median(turn.evaluate(1, number, cache_flush_bytes=FLUSH_BYTES)) for turn in turns)


def _of_long_calls(
    calls: Calls, config: MeasureConfig, secs: float, *, is_slow: bool
) -> tuple[float, ...]:
    repeat_secs = config.min_repeat_ms / 1e3
    number = 1 if secs >= repeat_secs else config.number
    repeat = 1 if is_slow or secs > SLOW_REPEATS * repeat_secs else config.repeat
    # Worth counting where there will be few.
    counted_secs = secs if secs * SLOW_REPEATS > repeat_secs else 0.0
    first = calls.mean(number, repeat_secs, counted_secs)
    return (first, *(calls.turn(at).mean(number, repeat_secs) for at in range(1, repeat)))
