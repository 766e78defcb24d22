# SPDX-License-Identifier: Apache-2.0
"""Prompts stay within their tokens, whatever they are made of, and are made in no time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prompt_checks import MATMUL, SOFTMAX, Told, bench_of, first_guess, ran, view_of

from kope_tvm.chat.tokens import bound
from kope_tvm.context import Trial
from kope_tvm.outcome import accept
from kope_tvm.prompt.brief import brief
from kope_tvm.prompt.view import LANES, View
from kope_tvm.proposal import Decisions
from kope_tvm.space import neighbours
from kope_tvm.workbench import Workbench

words = st.text(max_size=300)
told = st.builds(
    Told,
    words,
    st.floats(0, 1e6),
    st.sampled_from(["", "E_BUILD"]),
    words,
    words,
    st.floats(0, 1),
    words,
)
lanes = st.lists(st.sampled_from(LANES), unique=True).map(tuple)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=st.sampled_from([MATMUL, SOFTMAX]),
    limit=st.integers(100, 4000),
    is_measured=st.booleans(),
    open_lanes=lanes,
    lines=st.lists(words, max_size=4).map(tuple),
    transitions=st.lists(told, max_size=6).map(tuple),
    secs=st.floats(0, 1e3),
)
def test_no_prompt_is_over_its_limit(
    spec: str,
    limit: int,
    is_measured: bool,
    open_lanes: tuple[str, ...],
    lines: tuple[str, ...],
    transitions: tuple[Told, ...],
    secs: float,
) -> None:
    trials = (first_guess(bench_of(spec), max(secs, 1e-9)),) if is_measured else ()
    view = view_of(
        spec,
        *trials,
        lanes=open_lanes,
        lanes_reason=" ".join(lines)[:400],
        lessons=lines,
        feedback=lines,
        transitions=transitions,
        limit_tokens=limit,
    )
    made = brief(view)
    assert made.tokens_bound <= limit
    assert bound(made.system) + bound(made.prompt) <= limit


def test_a_prompt_after_a_hundred_trials_takes_at_most_20_ms() -> None:
    bench = bench_of(MATMUL)
    view = view_of(MATMUL, *many_trials(bench, 100))
    brief(view)  # What stays the same in a task is worked out in its first prompt.
    assert min(cpu_secs(view) for _ in range(5)) <= 0.02


def many_trials(bench: Workbench, count: int) -> Iterator[Trial]:
    turned = [
        space.turned({knob.index: value})
        for space in bench.rule_spaces
        for knob in space.knobs
        for value in neighbours(knob)
    ]
    for number in range(count):
        space = turned[number % len(turned)]
        proposal = Decisions(space.name, space.trace)
        yield Trial(f"t{number}", proposal, accept("device"), ran(1e-5 + number * 1e-7))


def cpu_secs(view: View) -> float:
    start = time.process_time()
    brief(replace(view))
    return time.process_time() - start
