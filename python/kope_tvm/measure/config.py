# SPDX-License-Identifier: Apache-2.0
"""How a candidate is timed, in the words of MetaSchedule's EvaluatorConfig."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasureConfig:
    """Timing and checking of one candidate."""

    number: int = 1
    """Calls averaged into one repeat, at least; one where a call lasts `min_repeat_ms`."""
    repeat: int = 3
    """One where a call lasts four times `min_repeat_ms`."""
    min_repeat_ms: float = 30.0
    """`number` grows until one repeat lasts this long."""
    enable_cpu_cache_flush: bool = False
    """Before every call, each a repeat of its own: TVM flushes once a repeat."""
    check: bool = True
    """Compare every output with what is expected, before timing and after."""
    seed: int = 0
    """Of the inputs: the first of them."""
    num_seeds: int = 3
    """Of each distribution; fewer where the task is slow or large."""
    check_secs: float = 1.0
    """Computing what is expected may take so long after the first case, and proving a candidate on
    it; one seed is always used.
    """
