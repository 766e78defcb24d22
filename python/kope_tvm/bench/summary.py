# SPDX-License-Identifier: Apache-2.0
"""What a bench run comes to in all, against each peer and on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kope_tvm.bench.contest import EARLY_TRIALS, STOCK, WARM
from kope_tvm.bench.curve import SHARES, reached
from kope_tvm.bench.result import OWN, Bench, Operator
from kope_tvm.bench.statistics import Interval, fast_share, geomean_interval, percentile

BARS = (0.0, 1.0, 1.05, 1.2, 1.5, 2.0)
"""Of fast_p."""


@dataclass(frozen=True)
class Reached:
    """When a run was as good as a share of a peer."""

    contender: str
    share: float
    """Of the peer's speed."""
    num_reached: int
    """Operators on which it ever was."""
    num_early: int
    """Those on which it was within 8 trials."""
    median_trials: float
    """Of those on which it ever was; nan of none."""


@dataclass(frozen=True)
class Against:
    """Kope beside one peer."""

    peer: str
    num_operators: int
    """Those that the peer took part in."""
    geomean: Interval
    """Of all of them. Where kope left the untuned function it counts as that: 1.0 against it."""
    num_optimised: int
    optimised: Interval
    """Geometric mean of those that kope did not leave untuned."""
    median: float
    quarter: float
    """A quarter of the ratios are lower."""
    least: float
    least_of: str
    """The operator on which the ratio is least."""
    fast: Mapping[str, float]
    """fast_p by p: of all operators, those that are tuned, right, and more than p times as fast."""
    reached: tuple[Reached, ...]
    """Of stock MetaSchedule only: its best after all of its trials."""


@dataclass(frozen=True)
class Totals:
    """Of kope itself."""

    num_operators: int
    num_optimised: int
    roof_share: float
    """Median share of the measured roof; nan where none is known."""
    own_share: float
    """Kope's own share of its tuning wall time, over all operators."""
    wall_secs: Mapping[str, float]
    """Of tuning, by contender that tunes."""
    calls: int
    """Of a model."""
    tokens: int
    successes: int
    """Proposals of a model that were faster than all before them."""
    legal_share: float
    """Of a model's replies, those in which something became a program, at once or mended once."""
    near_misses: int
    mended: int


def against(bench: Bench, peer: str) -> Against:
    """Raises ValueError for a peer that took part in nothing."""
    theirs = [one for one in bench.operators if peer in one.run_secs]
    ratios = {one.spec: _ratio(one, peer) for one in theirs}
    right = [ratios[one.spec] for one in theirs if one.is_optimised]
    least_of = min(ratios, key=lambda spec: ratios[spec])
    values = list(ratios.values())
    return Against(
        peer=peer,
        num_operators=len(theirs),
        geomean=geomean_interval(values),
        num_optimised=len(right),
        optimised=geomean_interval(right),
        median=median(values),
        quarter=percentile(values, 0.25),
        least=ratios[least_of],
        least_of=least_of,
        fast={f"{bar:g}": fast_share(right, len(theirs), bar) for bar in BARS},
        reached=tuple(_reached(theirs, peer)) if peer in STOCK else (),
    )


def _ratio(one: Operator, peer: str) -> float:
    """Two times of one and the same function differ by noise alone."""
    return 1.0 if peer == "untuned" and not one.is_optimised else one.speed(OWN, peer)


def _reached(operators: Sequence[Operator], peer: str) -> list[Reached]:
    found = []
    for contender in (OWN, WARM):
        for share in SHARES:
            numbers = [trials_to(one, contender, peer, share) for one in operators]
            known = [number for number in numbers if number is not None]
            early = sum(1 for number in known if number <= EARLY_TRIALS)
            middle = float(median(known)) if known else float("nan")
            found.append(Reached(contender, share, len(known), early, middle))
    return found


def trials_to(one: Operator, contender: str, peer: str, share: float) -> int | None:
    """The trial from which a contender had a share of a peer's speed; None for never."""
    if contender not in one.tuned or peer not in one.run_secs:
        return None
    tuned = one.tuned[contender]
    return reached(tuned.curve, one.speed(contender, peer), share) if tuned.is_optimised else None


def totals(bench: Bench) -> Totals:
    """Over all operators."""
    tuned = [one.tuned[OWN] for one in bench.operators if OWN in one.tuned]
    talks = [one.talk for one in tuned if one.talk]
    known = [one.roof_share(OWN) for one in bench.operators if one.roof_secs]
    wall_secs = sum(one.wall_secs for one in tuned)
    own_secs = sum(one.own_share * one.wall_secs for one in tuned)
    replies = sum(talk.replies for talk in talks)
    return Totals(
        num_operators=len(bench.operators),
        num_optimised=sum(one.is_optimised for one in bench.operators),
        roof_share=median(known) if known else float("nan"),
        own_share=own_secs / wall_secs if wall_secs else 0.0,
        wall_secs=_wall_secs(bench),
        calls=sum(talk.calls for talk in talks),
        tokens=sum(talk.prompt_tokens + talk.completion_tokens for talk in talks),
        successes=sum(talk.reached[-1] for talk in talks),
        legal_share=sum(talk.legal_replies for talk in talks) / replies if replies else 0.0,
        near_misses=sum(talk.repaired for talk in talks),
        mended=sum(talk.mended for talk in talks),
    )


def _wall_secs(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in bench.operators:
        for name, tuned in one.tuned.items():
            found[name] = found.get(name, 0.0) + tuned.wall_secs
    return found
