# SPDX-License-Identifier: Apache-2.0
"""Steps out of untrusted JSON: what is read, what is meant by other spellings, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kope_tvm.outcome import Verdict
from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.steps import read_steps
from kope_tvm.proposal import Origin, Plan, Step, proposal_from, proposal_text

_SPLIT: dict[str, Any] = {"do": "split", "block": "C", "loop": "k", "factors": [8, 4]}


def _read(*steps: object) -> tuple[Step, ...]:
    read = read_steps(list(steps))
    assert not isinstance(read, Verdict), read
    return read


def _refused(given: object) -> str:
    verdict = read_steps(given)
    assert isinstance(verdict, Verdict)
    assert (verdict.gate, verdict.code, verdict.accepted) == ("plan", "E_STEP", False)
    return verdict.reason


def test_a_step_is_read_as_written() -> None:
    assert _read(_SPLIT) == (Step("split", {"block": "C", "loop": "k", "factors": [8, 4]}),)


def test_a_plan_survives_its_text() -> None:
    plan = Plan(_read(_SPLIT, {"do": "fuse", "block": "C", "loops": ["i", "j"], "into": "ij"}))
    assert proposal_from("plan", "", proposal_text(plan), Origin("unknown")) == plan


@pytest.mark.parametrize(
    "spelt",
    [
        {"primitive": "split", "block": "C", "loop": "k", "factors": [8, 4]},
        {"op": "Split", "block": "C", "axis": "k", "factors": [8.0, 4]},
        {"name": "split", "block": "C", "loops": "k", "tile": [8, 4]},
        {"do": "sch.split", "block": "C", "loops": ["k"], "factors": [8, 4], "why": "registers"},
        {"do": "split", "block": "C", "loop": "k", "factors": [8, 4], "into": None},
    ],
)
def test_other_spellings_of_one_step(spelt: dict[str, Any]) -> None:
    assert _read(spelt) == _read(_SPLIT)


@pytest.mark.parametrize(
    ("spelt", "meant"),
    [
        (
            {"do": "split", "block": "C", "loop": "k", "factor": 4},
            Step("split", {"block": "C", "loop": "k", "factors": [-1, 4]}),
        ),
        (
            {"do": "split", "block": "C", "loop": "k", "factors": [None, 4]},
            Step("split", {"block": "C", "loop": "k", "factors": [-1, 4]}),
        ),
        (
            {"do": "reorder", "block": "C", "order": "i, k"},
            Step("reorder", {"block": "C", "loops": ["i", "k"]}),
        ),
        (
            {"do": "bind", "block": "C", "loop": "i", "thread_axis": "threadIdx.x"},
            Step("bind", {"block": "C", "loop": "i", "thread": "threadIdx.x"}),
        ),
        (
            {"do": "compute-at", "block": "B", "loop": "i", "of": "C"},
            Step("compute_at", {"block": "B", "at": "i", "of": "C"}),
        ),
        (
            {"do": "rfactor", "block": "C", "loop": "k", "axis": 1},
            Step("rfactor", {"block": "C", "loop": "k", "axis": 1}),
        ),
        (
            {"do": "cache_read", "block": "C", "read_buffer": "B", "storage_scope": "global"},
            Step("cache_read", {"block": "C", "buffer": "B", "scope": "global"}),
        ),
        (
            {"do": "vectorise", "block": "C", "loop": "j"},
            Step("vectorize", {"block": "C", "loop": "j"}),
        ),
    ],
)
def test_what_a_spelling_means(spelt: dict[str, Any], meant: Step) -> None:
    assert _read(spelt) == (meant,)


_DEEP: list[Any] = []
for _ in range(5000):
    _DEEP = [_DEEP]

_REFUSED: list[tuple[object, str]] = [
    (None, "steps: expected a list of steps, got None"),
    ({}, "steps: expected a list of steps, got an object of 0 keys"),
    ("split", "steps: expected a list of steps, got 'split'"),
    ([], "steps: expected a list of steps, got []"),
    ([_SPLIT] * 10_000, "steps: 10000 steps, at most 64"),
    ([_SPLIT, 7], "step 2: expected an object, got 7"),
    ([_DEEP], "step 1: expected an object, got a list of 1"),
    ([{"loop": "k"}], "step 1: expected a primitive's name by `do`, got None"),
    ([{"do": ["split"]}], "step 1: expected a primitive's name by `do`, got ['split']"),
    ([{"do": "vectorice"}], "step 1 'vectorice': no such primitive; nearest: vectorize"),
    (
        [{"do": "unsafe_set_dtype", "block": "C", "dtype": "float16"}],
        "step 1 'unsafe_set_dtype': refused as unsafe; nearest: set_scope",
    ),
    ([{"do": "__class__"}], "step 1 '__class__': no such primitive; nearest: cache_read"),
    (
        [{"do": "split", "loop": "k", "factors": [8, 4]}],
        "step 1 split(block): missing; arguments: block, loop, factors, into",
    ),
    (
        [{**_SPLIT, "disable_predication": True}],
        "step 1 split('disable_predication'): not an argument of it; "
        "arguments: block, loop, factors, into",
    ),
    (
        [_SPLIT | {f"x{number}": 0 for number in range(20)}],
        "step 1 split(keys): 23 of them; arguments: block, loop, factors, into",
    ),
    (
        [_SPLIT | {"factors": [10**400, 4]}],
        "step 1 split(factors=[an integer of 1329 bits, 4]): "
        "expected an integer from -1 to 2147483647, got an integer of 1329 bits",
    ),
    (
        [_SPLIT | {"factors": json.loads("[1e400, 4]")}],
        "step 1 split(factors=[inf, 4]): expected an integer from -1 to 2147483647, got inf",
    ),
    (
        [_SPLIT | {"factors": [True, 4]}],
        "step 1 split(factors=[True, 4]): expected an integer from -1 to 2147483647, got True",
    ),
    (
        [_SPLIT | {"factors": [0, 4]}],
        "step 1 split(factors=[0, 4]): "
        "expected positive factors, at most one of them -1, got [0, 4]",
    ),
    (
        [_SPLIT | {"factors": [1] * 10_000}],
        "step 1 split(factors=a list of 10000): "
        "expected a list of 2 to 16 factors, got a list of 10000",
    ),
    (
        [_SPLIT | {"factors": _DEEP}],
        "step 1 split(factors=a list of 1): "
        "expected an integer from -1 to 2147483647, got a list of 1",
    ),
    (
        [_SPLIT | {"loop": "__class__"}],
        "step 1 split(loop='__class__'): expected a name of letters, digits and _, got '__class__'",
    ),
    (
        [_SPLIT | {"block": "../../etc/passwd"}],
        "step 1 split(block='../../etc/passwd'): "
        "expected a name of letters, digits and _, got '../../etc/passwd'",
    ),
    (
        [_SPLIT | {"into": ["a", "__b__"]}],
        "step 1 split(into=['a', '__b__']): "
        "expected one identifier of at most 64 characters, got '__b__'",
    ),
    (
        [_SPLIT | {"into": ["a", "a"]}],
        "step 1 split(into=['a', 'a']): one name twice: ['a', 'a']",
    ),
    (
        [{"do": "reorder", "block": "C", "loops": ["i", "i"]}],
        "step 1 reorder(loops=['i', 'i']): names 'i' twice",
    ),
    (
        [{"do": "annotate", "block": "C", "loop": "i", "key": "pragma_import_c", "value": "x.c"}],
        "step 1 annotate(key='pragma_import_c'): expected one of double_buffer_scope, "
        "pragma_auto_unroll_max_step, pragma_unroll_explicit, software_pipeline_async_stages, "
        "software_pipeline_order, software_pipeline_stage, got 'pragma_import_c'",
    ),
    (
        [{"do": "bind", "block": "C", "loop": "i", "thread": "threadIdx.w"}],
        "step 1 bind(thread='threadIdx.w'): expected one of blockIdx.x, blockIdx.y, blockIdx.z, "
        "threadIdx.x, threadIdx.y, threadIdx.z, vthread.x, vthread.y, vthread.z, "
        "got 'threadIdx.w'",
    ),
]


@pytest.mark.parametrize(("given", "reason"), _REFUSED, ids=[reason for _, reason in _REFUSED])
def test_refused(given: object, reason: str) -> None:
    assert _refused(given) == reason


def test_no_reason_is_longer_than_a_few_lines() -> None:
    long = {"do": "x" * 10_000, **{"y" * 10_000: "\n" * 10_000}}
    assert len(_refused([long])) <= 320
    assert len(_refused([{"do": "split", "block": "C", "l\n" * 9999: 1}])) <= 320


def test_nothing_unsafe_is_on_the_list() -> None:
    assert not [name for name in primitives() if "unsafe" in name or "sample" in name]
    assert {"split", "tensorize", "transform_layout"} <= set(primitives())
    assert len(primitives()) == 25
