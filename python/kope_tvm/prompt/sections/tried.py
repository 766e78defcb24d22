# SPDX-License-Identifier: Apache-2.0
"""What was tried and refused in this run, by what it does: the same idea is not to come again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import log

from kope_tvm.context import Trial
from kope_tvm.prompt.amounts import shown_secs, three_digits
from kope_tvm.prompt.item import Item
from kope_tvm.prompt.knobs import shown_value
from kope_tvm.prompt.mechanism import mechanism_of
from kope_tvm.prompt.view import View
from kope_tvm.space import Knob, Space

ORDER = 60
TITLE = "Tried in this run: do not repeat under another label"
_MOST_KINDS = 6
_MOST_NEAR = 5
_MOST_REFUSALS = 4
_MOST_CHANGES = 6
"""Knobs in which a setting may differ from the incumbent's to be called near."""
_MECHANISM_CHARS = 120
_REASON_CHARS = 120


def items(view: View) -> Iterator[Item]:
    """Best time by mechanism, the settings nearest to the incumbent's, and refusals."""
    done = [trial for trial in view.context.trials if _is_measured(trial)]
    if len(done) > 1:
        yield Item(_by_kind(done), value=110)
    for number, line in enumerate(_near(done, view)):
        yield Item(line, value=60 / (1 + number / 2))
    if view.pending:
        yield Item(_pending(view), value=100)
    failed = [trial for trial in view.context.trials if not _is_measured(trial)]
    for number, line in enumerate(_refusals(failed)):
        yield Item(line, value=80 / (1 + number))


def _pending(view: View) -> str:
    ideas = [mechanism_of(one)[:_MECHANISM_CHARS] for one in view.pending[:_MOST_KINDS]]
    return f"being measured now: {'; '.join(dict.fromkeys(ideas))}"


def _is_measured(trial: Trial) -> bool:
    return trial.measurement is not None and trial.measurement.ok


def _by_kind(done: list[Trial]) -> str:
    best: dict[str, list[float]] = defaultdict(list)
    for trial in done:
        best[mechanism_of(trial.proposal)].append(trial.secs)
    ranked = sorted(best.items(), key=lambda pair: min(pair[1]))
    shown = [
        f"{kind[:_MECHANISM_CHARS]} {shown_secs(min(secs))} (best of {len(secs)})"
        for kind, secs in ranked[:_MOST_KINDS]
    ]
    more = len(ranked) - len(shown)
    return "; ".join(shown) + (f"; {more} kinds more" if more else "")


def _near(done: list[Trial], view: View) -> Iterator[str]:
    """`s1 but d9=4 => 1.31x its time` for the settings fewest and smallest turns away."""
    incumbent = view.incumbent
    if incumbent is None or incumbent.space is None or incumbent.trial is None:
        return
    space, secs = incumbent.space, incumbent.trial.secs
    ranked = []
    for number, trial in enumerate(done):
        other = view.notes.space(trial)
        if other is None or other.structure != space.structure:
            continue
        changed = _changed(space, other)
        if 0 < len(changed) <= _MOST_CHANGES:
            distance = sum(_gap(old, new) for old, new in changed)
            ranked.append((len(changed), distance, number, changed, trial.secs))
    for _, _, _, changed, other_secs in sorted(ranked, key=lambda one: one[:3])[:_MOST_NEAR]:
        settings = " ".join(f"d{new.index}={shown_value(new)}" for _, new in changed)
        yield f"s1 but {settings} => {three_digits(other_secs / secs)}x its time"


def _changed(space: Space, other: Space) -> list[tuple[Knob, Knob]]:
    pairs = zip(space.knobs, other.knobs, strict=False)
    return [(old, new) for old, new in pairs if old.value != new.value]


def _gap(old: Knob, new: Knob) -> float:
    """How far a knob was turned: doublings, or places of a location."""
    if isinstance(old.value, tuple) and isinstance(new.value, tuple):
        pairs = zip(old.value, new.value, strict=False)
        return sum(abs(log(a / b, 2)) for a, b in pairs if a > 0 and b > 0)
    if old.options and new.options:
        return abs(log((1 + float(new.shown)) / (1 + float(old.shown)), 2))
    return abs(int(str(new.value)) - int(str(old.value)))


def _refusals(failed: list[Trial]) -> Iterator[str]:
    """One line a code and mechanism, the newest reason with it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trial in reversed(failed):
        code, reason, suspicious = failure_of(trial)
        kind = "" if suspicious else mechanism_of(trial.proposal)[:_MECHANISM_CHARS]
        groups.setdefault((code, kind), []).append(reason)
    ranked = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    for (code, kind), reasons in ranked[:_MOST_REFUSALS]:
        times = f" {len(reasons)} times" if len(reasons) > 1 else ""
        yield f"{code}{times}, {kind or 'refused as cheating'}: {reasons[0][:_REASON_CHARS]}"


def failure_of(trial: Trial) -> tuple[str, str, bool]:
    """Code and reason of what stopped a trial, and whether it was taken for cheating."""
    return trial.code, trial.reason.split("\n")[0], trial.suspicious
