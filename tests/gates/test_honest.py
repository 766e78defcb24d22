# SPDX-License-Identifier: Apache-2.0
"""Honest functions and schedules, however odd: none is refused, and all are proved right."""

from __future__ import annotations

import pytest
from door import Answers, Entry, answers, entries

HONEST = entries("honest")
CASES = [(entry, door) for entry in HONEST for door in entry.doors]


@pytest.fixture(scope="module")
def accepted() -> Answers:
    return answers(HONEST)


def test_there_are_enough_of_them() -> None:
    assert len({entry.name for entry in HONEST}) == len(HONEST) >= 24


@pytest.mark.parametrize(
    ("entry", "door"), [pytest.param(*case, id=f"{case[0].name}-{case[1]}") for case in CASES]
)
def test_what_is_honest_is_accepted(entry: Entry, door: str, accepted: Answers) -> None:
    answer = accepted[entry.name, door]
    assert (answer.code, answer.experience.reason) == ("", "")
    assert answer.is_best
    assert answer.trial.measurement is not None
    assert answer.trial.measurement.max_error <= 1
