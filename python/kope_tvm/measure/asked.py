# SPDX-License-Identifier: Apache-2.0
"""What one call of `measure` asks of its candidates: which are proved, when, and on what inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kope_tvm.measure.references import Known
from kope_tvm.outcome import Measurement
from kope_tvm.performance import QUARANTINE

PROMPT_SECS = 0.02
"""Of a call: proving makes twenty of them. What is slower waits for the end of its batch, where it
mostly is the best no more.
"""


@dataclass(frozen=True)
class Asked:
    """Asked of all candidates alike; what becomes of them is noted with the reference."""

    checked: Known | None
    hopeless_secs: float | None
    prove_secs: float | None
    """None: what beats the best so far is proved."""
    floor_secs: float
    keeps: bool = False
    """They will be measured again: their code is kept."""

    @property
    def prove_below(self) -> float:
        """The time below which a candidate is checked on every case before its process ends."""
        if self.prove_secs is not None or self.checked is None:
            return self.best_secs
        return min(self.best_secs, self.checked.hoped_secs, PROMPT_SECS)

    @property
    def best_secs(self) -> float:
        """What a candidate must beat to be proved."""
        if self.prove_secs is not None:
            return self.prove_secs
        return self.checked.best_secs if self.checked else math.inf

    def leaves_open(self, measurement: Measurement) -> bool:
        """Whether it is left for the end of the batch; what is slower then need not be proved."""
        is_open = self.doubts(measurement) or self._is_put_off(measurement)
        if self.checked and is_open:
            self.checked.hoped_secs = min(self.checked.hoped_secs, measurement.secs)
        return is_open

    def end_batch(self) -> None:
        """What was left open is no hope any more: it is proved now, or is no best."""
        if self.checked:
            self.checked.hoped_secs = math.inf

    def doubts(self, measurement: Measurement) -> bool:
        """Whether it is so much faster than the best that other inputs must prove it again."""
        if self.checked is None or not measurement.ok:
            return False
        return measurement.secs * QUARANTINE < self.checked.seen_secs < math.inf

    def must_prove(self, measurement: Measurement) -> bool:
        """Whether one that was left open is to be proved, those before it being settled."""
        is_open = self.doubts(measurement) or self._is_put_off(measurement)
        return measurement.is_proven or is_open

    def note(self, measurement: Measurement) -> None:
        """Remember the best, and the best that was right on every case."""
        if self.checked and measurement.ok:
            self.checked.seen_secs = min(self.checked.seen_secs, measurement.secs)
            if measurement.is_proven:
                self.checked.best_secs = min(self.checked.best_secs, measurement.secs)

    def _is_put_off(self, measurement: Measurement) -> bool:
        """Whether it would be the best if it were proved."""
        if self.checked is None or self.prove_secs is not None or measurement.is_proven:
            return False
        return measurement.secs < min(self.checked.best_secs, self.checked.hoped_secs)


def without_reference(failed: Measurement) -> Measurement:
    """What candidates get where the untuned function failed."""
    return replace(
        failed,
        stage="check",
        code="E_DEVICE",
        error=f"the untuned function gave nothing to compare with: {failed.code} {failed.error}",
    )


def quarantined(failed: Measurement) -> Measurement:
    """What one gets that was in doubt and failed when it was proved again."""
    error = f"too fast, and wrong when proved again: {failed.code} {failed.error}"
    return replace(failed, stage="check", code="E_QUARANTINE", error=error)
