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
    check: bool = True
    """Compare every output with the untuned function's before timing."""
    seed: int = 0
    """Of the inputs."""
