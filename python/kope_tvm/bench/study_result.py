# SPDX-License-Identifier: Apache-2.0
"""What a study found, as plain data, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from kope_tvm.bench.result import geomean
from kope_tvm.bench.talk import STAGES, Talk
from kope_tvm.console import table


@dataclass(frozen=True)
class Case:
    """One operator: the best of each run timed in turns, and what was said."""

    spec: str
    run_secs: Mapping[str, tuple[float, ...]]
    """By run, one value a turn; turns of one index were made one after another."""
    talk: Talk

    def speed(self, over: str) -> float:
        """How many times as fast the run with a model ended: the median of the turns' ratios."""
        pairs = zip(self.run_secs[over], self.run_secs["with a model"], strict=True)
        return median(other / mine for other, mine in pairs)


@dataclass(frozen=True)
class Study:
    """All operators of a study."""

    model: str
    """Its name at the endpoint, or `replayed`."""
    trials: int
    seed: int
    target: str
    versions: Mapping[str, str]
    cases: tuple[Case, ...]

    @property
    def summary(self) -> Mapping[str, float]:
        """The figures over all operators."""
        talks = [case.talk for case in self.cases]
        replies = sum(talk.replies for talk in talks)
        repaired = sum(talk.repaired for talk in talks)
        calls = sum(talk.calls for talk in talks)
        return {
            "geomean over sketch": geomean(case.speed("sketch") for case in self.cases),
            "geomean over no model": geomean(case.speed("without a model") for case in self.cases),
            "legal replies": sum(talk.legal_replies for talk in talks) / max(1, replies),
            "near misses mended": sum(talk.mended for talk in talks) / max(1, repaired),
            "near misses": repaired,
            "mean prompt tokens": sum(talk.prompt_tokens for talk in talks) / max(1, calls),
            "calls": calls,
        }


def spell(study: Study) -> str:
    """The table of a study and its summary."""
    headers = (
        "OPERATOR", "/SKETCH", "/NO MODEL", "CALLS", *(stage.upper() for stage in STAGES),
        "MENDED", "TOKENS", "PER SUCCESS",
    )  # fmt: skip
    lines = [f"{name}: {value:.2f}" for name, value in study.summary.items()]
    return "\n".join([table(headers, [_row(case) for case in study.cases]), *lines])


def _row(case: Case) -> tuple[object, ...]:
    talk = case.talk
    return (
        case.spec.removeprefix("op:"),
        f"{case.speed('sketch'):.2f}",
        f"{case.speed('without a model'):.2f}",
        talk.calls,
        *talk.reached,
        f"{talk.mended}/{talk.repaired}",
        talk.prompt_tokens + talk.completion_tokens,
        f"{talk.tokens_per_success:.0f}",
    )
