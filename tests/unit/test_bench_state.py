# SPDX-License-Identifier: Apache-2.0
"""A bench run that was stopped goes on where it stopped, and only where it was called the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kope_tvm.bench import ablations
from kope_tvm.bench.result import Configuration, Operator, Tuned
from kope_tvm.bench.run import chosen_of
from kope_tvm.bench.state import State
from kope_tvm.bench.talk import Talk
from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import UsageError

TOLD = Configuration("toy", "host", 32, (1, 2), ("untuned",), (), "none", "", 21, 0.03)
TALK = Talk(4, 0, 3, 3, 6, (6, 6, 5, 4, 4, 2), 2, 1, 6000, 2000, 2000)
FOUND = Operator(
    "op:softmax:m=8,n=8",
    {"kope": (1e-3, 2e-3), "untuned": (3e-3, 3e-3)},
    {"kope": Tuned(1.0, 4, refusals={"E_X": 2}, curve=((1, 1e-3),), talk=TALK)},
    1e-4,
    {"onnxruntime": "no ONNX form"},
)


def wanted(**given: object) -> Wanted:
    usual = Wanted("toy", None, (), 32, None, 1, None, lambda text: None)
    return replace(usual, **given)  # type: ignore[arg-type]


def test_what_was_kept_is_read_again_as_it_was(tmp_path: Path) -> None:
    State(tmp_path, TOLD).keep(FOUND, 1)
    again = State(tmp_path, TOLD)
    assert again.done(FOUND.spec, 1) == FOUND
    assert again.done(FOUND.spec, 2) is None


def test_another_configuration_is_refused_with_what_differs(tmp_path: Path) -> None:
    State(tmp_path, TOLD)
    with pytest.raises(UsageError, match=r"trials 32 there.*name another folder"):
        State(tmp_path, replace(TOLD, trials=64))


def test_a_file_that_is_half_a_word_is_named(tmp_path: Path) -> None:
    state = State(tmp_path, TOLD)
    state.keep(FOUND, 1)
    next(tmp_path.glob("softmax*.json")).write_text("{")
    with pytest.raises(UsageError, match="remove it"):
        state.done(FOUND.spec, 1)


def test_shards_part_a_suite_and_words_pick_from_it() -> None:
    suite = ("op:a", "op:b", "op:c", "op:d", "op:e")
    parts = [chosen_of(suite, wanted(shard=(number, 2))) for number in (1, 2)]
    assert parts == [("op:a", "op:c", "op:e"), ("op:b", "op:d")]
    assert chosen_of(suite, wanted(only=("b", "e"))) == ("op:b", "op:e")
    with pytest.raises(UsageError, match="no operator of suite toy"):
        chosen_of(suite, wanted(only=("z",)))


def test_every_ablation_has_a_label_of_its_own() -> None:
    labels = [ablations.load(name).label for name in ablations.names()]
    assert len(set(labels)) == len(labels) >= 9
    assert {"memory", "context", "repair", "lessons", "sketch-only"} < set(ablations.names())


def test_an_ablation_of_the_model_needs_one() -> None:
    with pytest.raises(UsageError, match="--without repair changes nothing without a model"):
        ablations.chosen(("repair",), "experience")
    assert set(ablations.chosen(("all",), "experience")) == {"memory", "sketch-only"}
    assert set(ablations.chosen(("all",), "replay")) == set(ablations.names())
    with pytest.raises(UsageError, match="unknown ablation 'luck'"):
        ablations.chosen(("luck",), "replay")
