# SPDX-License-Identifier: Apache-2.0
"""One round of random programs: the static gates, then the device as a tuning run asks it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kope_tvm.bench.gates_draw import Draw, draw
from kope_tvm.bench.gates_result import Cost, Passage
from kope_tvm.ceiling import Ceiling
from kope_tvm.measure import Pool
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.performance import least_secs
from kope_tvm.pool_device import PoolDevice
from kope_tvm.seam import Gate
from kope_tvm.workbench import Workbench

_HOPELESS = 8.0
"""As a tuning run has it: what is so many times slower than the best is timed by one call."""


@dataclass(frozen=True)
class Subject:
    """One operator, its bench, and what its candidates must pass."""

    operator: str
    workbench: Workbench
    gates: Sequence[Gate]
    seed: int
    ceiling: Ceiling
    say: Callable[[str], None]

    @property
    def floor_secs(self) -> float:
        """None is faster, as far as is known."""
        features = self.workbench.task.features
        return least_secs(self.ceiling.secs(features), features.op_class)

    def doubt(self) -> bool:
        """Asks the machine once more; False where it was asked before."""
        return self.ceiling.doubt(self.say)

    def raise_ceiling(self, measured: Sequence[Measurement]) -> None:
        """A right program that is faster than the roof shows that it was too low."""
        secs = min((one.secs for one in measured), default=math.inf)
        if secs < math.inf:
            self.ceiling.raise_to(self.workbench.task.features, secs)

    def verdict(self, one: Draw) -> Verdict | None:
        """The first refusal of the static gates."""
        for gate in self.gates:
            verdict = gate.check(one.candidate, self.workbench.task)
            if not verdict.accepted:
                return verdict
        return None

    def passage(self, one: Draw, measured: Measurement, cost: Cost | None = None) -> Passage:
        """What the device said of a program."""
        return Passage(
            self.operator,
            one.number,
            one.candidate.state,
            measured.code,
            measured.error,
            measured.secs if measured.ok else 0.0,
            measured.max_error,
            measured.is_proven,
            cost,
        )


@dataclass(frozen=True)
class _Accepted:
    """A program that the static gates let pass, and how long they took."""

    draw: Draw
    static_secs: float


def round_of(
    subject: Subject, pool: Pool, done: Sequence[Passage], size: int, *, is_ordinary: bool
) -> list[Passage]:
    """The next programs of an operator; none where its spaces are used up."""
    accepted: list[_Accepted] = []
    passages: list[Passage] = []
    for one in _drawn(subject, done, size):
        began = time.perf_counter()
        verdict = subject.verdict(one)
        if verdict is None:
            accepted.append(_Accepted(one, time.perf_counter() - began))
        else:
            state = one.candidate.state
            fields = (subject.operator, one.number, state, verdict.code, verdict.reason)
            passages.append(Passage(*fields))
    best_secs = min((each.run_secs for each in done if each.run_secs), default=math.inf)
    device = _Device(subject, pool, best_secs)
    through = device.ordinary(accepted) if is_ordinary else device.proved(accepted)
    return [*passages, *through]


def _drawn(subject: Subject, done: Sequence[Passage], size: int) -> list[Draw]:
    known = {each.state for each in done}
    number = max((each.number for each in done), default=0)
    drawn: list[Draw] = []
    while len(drawn) < size:
        one = draw(subject.workbench, subject.seed, number, known)
        if one is None:
            break
        drawn.append(one)
        known.add(one.candidate.state)
        number = one.number
    return drawn


@dataclass(frozen=True)
class _Device:
    """The pool, with the words of a tuning run."""

    subject: Subject
    pool: Pool
    best_secs: float

    def ordinary(self, accepted: Sequence[_Accepted]) -> list[Passage]:
        """Only what beats the best is proved; the others afterwards, unclocked."""
        began = time.perf_counter()
        measured = self._measured(accepted, prove_secs=None)
        device_secs = (time.perf_counter() - began) / max(len(accepted), 1)
        passages = []
        for one, found in zip(accepted, measured, strict=True):
            cost = Cost(one.draw.secs, one.static_secs, device_secs, found.check_secs)
            passages.append(self.subject.passage(one.draw, found, cost))
        rest = [at for at, found in enumerate(measured) if found.ok and not found.is_proven]
        proved = self.proved([accepted[at] for at in rest])
        for at, passage in zip(rest, proved, strict=True):
            passages[at] = replace(passage, cost=passages[at].cost)
        return passages

    def proved(self, accepted: Sequence[_Accepted]) -> list[Passage]:
        """Every one checked on every case."""
        measured = self._measured(accepted, prove_secs=math.inf)
        pairs = zip(accepted, measured, strict=True)
        return [self.subject.passage(one.draw, found) for one, found in pairs]

    def _measured(
        self, accepted: Sequence[_Accepted], *, prove_secs: float | None
    ) -> list[Measurement]:
        device = PoolDevice(
            self.pool,
            self.subject.workbench.mod,
            spend=lambda secs: None,
            doubt=self.subject.doubt,
            hopeless_secs=self.best_secs * _HOPELESS if self.best_secs < math.inf else None,
            floor_secs=lambda: self.subject.floor_secs,
            prove_secs=prove_secs,
        )
        found = dict(device.measure([one.draw.candidate for one in accepted]))
        measured = [found[at] for at in range(len(accepted))]
        self.subject.raise_ceiling(measured)
        return measured
