# SPDX-License-Identifier: Apache-2.0
"""Which kind of proposal to ask for: turn decisions, plan a schedule, or rewrite the function.

It orders and advises; a model may argue, since every lane of a reply is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kope_tvm.context import Trial
from kope_tvm.memory.lessons import Lesson
from kope_tvm.proposal import lane_of
from kope_tvm.task import Task

DECISIONS, PLAN, REWRITE = "decisions", "plan", "rewrite"

NOTHING_TO_WIN = 1.05
"""Times the roof: what is left is less than the noise of most machines."""
_NEAR = 1.5
"""Times the roof, below which a known structure needs other numbers, not another structure."""
_MIN_FAILURES = 3
_ENOUGH_DECISIONS = 8
_CLEAR = 1.03
_LESSON = re.compile(r"(\w+): (\S+) is [\d.]+x the best other space")
_FOREIGN = ("call_extern", "call_packed", "call_cpacked", "call_pure_extern", "call_pure_packed")
_FUSED_CLASSES = {"softmax": "an online softmax", "norm": "statistics in one pass"}
_CONTRACTIONS = frozenset({"matmul", "conv2d", "depthwise"})


@dataclass(frozen=True)
class Choice:
    """Lanes to propose in, best first, and whether another call of a model may pay."""

    lanes: tuple[str, ...]
    """Of `decisions`, `plan`, `rewrite`; empty where the function is to be kept as it is."""
    reason: str
    worth_asking: bool = True


@dataclass(frozen=True)
class _Question:
    task: Task
    headroom: float
    """Time over roof; 0 where either is unknown."""
    lessons: tuple[str, ...]
    trials: Sequence[Trial]
    has_rules: bool
    has_sketch: bool

    @property
    def distance(self) -> str:
        return f"{self.headroom:.2f}x the roof" if self.headroom else "distance to the roof unknown"


def choose(
    task: Task,
    *,
    best_secs: float,
    baseline_secs: float,
    roof_secs: float,
    lessons: Sequence[Lesson | str],
    trials: Sequence[Trial],
    has_rules: bool,
    has_sketch: bool = True,
) -> Choice:
    """The order of lanes for a task's next call; times are 0 or infinity where unknown."""
    if foreign := _foreign_call(task):
        return Choice((), f"keep: the function calls {foreign}, nothing to tune", False)
    secs = best_secs if math.isfinite(best_secs) and best_secs > 0 else baseline_secs
    headroom = secs / roof_secs if roof_secs > 0 and math.isfinite(secs) else 0.0
    texts = tuple(_claim(lesson, task) for lesson in lessons)
    question = _Question(task, headroom, texts, trials, has_rules, has_sketch)
    lanes, reason = next(_opinions(question))
    lanes, reason = _without_failures(lanes, reason, trials)
    if 0 < headroom < NOTHING_TO_WIN:
        return Choice(lanes, f"{min(1.0, 1 / headroom):.0%} of the roof: nothing to win", False)
    return Choice(lanes, reason)


def _opinions(question: _Question) -> Iterator[tuple[tuple[str, ...], str]]:
    """What speaks for an order of the lanes, strongest first."""
    if lane := _winning_lane(question.trials):
        yield _first(lane), f"the best so far is a {lane}, {question.distance}"
    if lane := next((lane for lane in map(_lane_claimed, question.lessons) if lane), ""):
        yield _first(lane), f"experience with {question.task.features.op_class}: {lane} was fastest"
    if question.has_rules and 0 < question.headroom < _NEAR:
        yield _first(DECISIONS), f"a rule fits, {question.distance}: tune its numbers"
    if fusion := _fusion(question.task):
        lanes = (REWRITE, DECISIONS, PLAN) if question.has_rules else (REWRITE, PLAN, DECISIONS)
        yield lanes, f"several passes over the same data: {fusion} may save some"
    if odd := _odd_extents(question.task):
        yield _first(PLAN), f"no tile of {odd} fits the vectors: plan with pad_einsum"
    if not (question.has_rules or question.has_sketch):
        yield (PLAN, REWRITE, DECISIONS), "no rule and no sketch knows the function: plan it"
    if _decisions_are_spent(question):
        yield (PLAN, REWRITE, DECISIONS), f"decisions left it at {question.distance}: restructure"
    known = "a rule" if question.has_rules else "a sketch"
    yield _first(DECISIONS), f"{known} fits, {question.distance}"


def _first(lane: str) -> tuple[str, ...]:
    return (lane, *(other for other in (DECISIONS, PLAN, REWRITE) if other != lane))


def _foreign_call(task: Task) -> str:
    """The kind of call to code that no schedule reaches."""
    return next((name for name in _FOREIGN if f'{name}"' in task.mod_json), "")


def _winning_lane(trials: Sequence[Trial]) -> str:
    """The lane of the best trial, where that is a plan or a rewrite with a clear lead."""
    best: dict[str, float] = {}
    for trial in trials:
        lane = lane_of(trial.proposal)
        best[lane] = min(trial.secs, best.get(lane, math.inf))
    lane = min(best, key=lambda name: best[name], default=DECISIONS)
    rivals = min((secs for name, secs in best.items() if name != lane), default=math.inf)
    leads = lane != DECISIONS and math.isfinite(best[lane]) and best[lane] * _CLEAR <= rivals
    return lane if leads else ""


def _claim(lesson: Lesson | str, task: Task) -> str:
    """The lesson's text where it is about this kind of function on this core class."""
    if isinstance(lesson, str):
        return lesson
    about = (lesson.op_class, lesson.machine_key)
    fits = about == (task.features.op_class, task.target.key) and lesson.holds
    return lesson.text if fits else ""


def _lane_claimed(text: str) -> str:
    """The lane that a lesson calls fastest; empty where it says no such thing."""
    found = _LESSON.match(text)
    if found is None:
        return ""
    return found[2] if found[2] in (PLAN, REWRITE) else DECISIONS


def _fusion(task: Task) -> str:
    features = task.features
    if features.op_class in _FUSED_CLASSES and features.num_blocks >= 3:
        return _FUSED_CLASSES[features.op_class]
    # Products, the greatest and the sum of their exponentials, products again.
    num_reduced = len(re.findall(r'"iter_type":\s*2\b', task.mod_json))
    if features.op_class == "matmul" and num_reduced >= 4 and '"tirx.exp"' in task.mod_json:
        return "attention with an online softmax"
    return ""


def _odd_extents(task: Task) -> str:
    """The extents of a contraction none of which whole vectors divide; empty where one does."""
    features = task.features
    lanes = task.target.facts.vlen_bits // _bits(features.dtypes) or 4
    extents = [extent for extent in features.spatial_extents if extent > 1]
    if features.op_class not in _CONTRACTIONS or not extents:
        return ""
    if any(extent % lanes == 0 for extent in extents if extent > 0):
        return ""
    return "x".join(map(str, extents))


def _bits(dtypes: Sequence[str]) -> int:
    """Of the output, whose elements lie in the vectors."""
    digits = re.search(r"\d+", dtypes[-1]) if dtypes else None
    return int(digits[0]) if digits else 32


def _decisions_are_spent(question: _Question) -> bool:
    """Many were measured, the last half of them won nothing, and the roof is far."""
    secs = [
        trial.secs
        for trial in question.trials
        if lane_of(trial.proposal) == DECISIONS and math.isfinite(trial.secs)
    ]
    half = len(secs) // 2
    is_still = len(secs) >= _ENOUGH_DECISIONS and min(secs[half:]) * _CLEAR > min(secs[:half])
    return is_still and question.headroom >= _NEAR


def _without_failures(
    lanes: tuple[str, ...], reason: str, trials: Sequence[Trial]
) -> tuple[tuple[str, ...], str]:
    """Lanes that only failed in this run go last."""
    failed = []
    for lane in (PLAN, REWRITE):
        mine = [trial for trial in trials if lane_of(trial.proposal) == lane]
        if len(mine) >= _MIN_FAILURES and not any(math.isfinite(trial.secs) for trial in mine):
            failed.append((lane, len(mine)))
    if not failed or lanes[0] not in dict(failed):
        return _last(lanes, [lane for lane, _ in failed]), reason
    told = " and ".join(f"{number} {lane}s" for lane, number in failed)
    return _last(lanes, [lane for lane, _ in failed]), f"{told} failed; else {reason}"


def _last(lanes: tuple[str, ...], moved: Sequence[str]) -> tuple[str, ...]:
    kept = [lane for lane in lanes if lane not in moved]
    return (*kept, *(lane for lane in lanes if lane in moved))
