# SPDX-License-Identifier: Apache-2.0
"""Random replies: whatever they say, steps or a refusal come of it, and a legal plan replays."""

from __future__ import annotations

import json
import time
from typing import Any

import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rule_checks import AVX2
from tvm import te

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict
from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.steps import read_steps
from kope_tvm.proposal import Decisions, Plan, Step
from kope_tvm.workbench import Workbench, make_task, trace_text

_SETTINGS = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
_PRIMITIVES = st.sampled_from([*primitives(), "unsafe_set_dtype", "enter_postproc"])
_BLOCKS = st.sampled_from(["C", "D", "B_global", "C_global", "C_init", "C_rf", "new", "root"])
_LOOPS = st.sampled_from(
    ["i", "j", "k", "i_0", "i_1", "j_0", "j_1", "k_0", "k_1", "ax0", "i_j_fused"]
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "block": _BLOCKS,
    "of": _BLOCKS,
    "loop": _LOOPS,
    "at": _LOOPS,
    "loops": st.lists(_LOOPS, min_size=1, max_size=4),
    "factors": st.lists(st.sampled_from([-1, 1, 2, 3, 4, 8, 16]), min_size=2, max_size=3),
    "into": st.sampled_from(["new", "C", ["x", "y"], ["i", "z"], "x"]),
    "buffer": st.sampled_from(["A", "B", "C", "D", "B_global", 0, 1]),
    "scope": st.sampled_from(["global", "local", "shared"]),
    "map": st.sampled_from(
        [
            "lambda a, b: (b, a)",
            "lambda a, b: (b // 8, a, b % 8)",
            "lambda a, b: a",
            "lambda a: a // 3",
        ]
    ),
    "pad": st.sampled_from([0, 1.5, "x"]),
    "padding": st.lists(st.sampled_from([1, 5, 32]), min_size=2, max_size=3),
    "axis": st.integers(-2, 3),
    "factor": st.integers(0, 8),
    "offset": st.integers(0, 8),
    "thread": st.just("threadIdx.x"),
    "key": st.sampled_from(
        ["pragma_unroll_explicit", "software_pipeline_stage", "pragma_import_c"]
    ),
    "value": st.sampled_from([0, 1, 16, [0, 1], "x"]),
    "intrin": st.sampled_from(["kope_dot_8x2_avx2", "wmma_fill", "none"]),
}
"""What a model would plausibly write, right and wrong."""


@st.composite
def _steps(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(_PRIMITIVES)
    known = primitives().get(name)
    arguments = known.arguments if known else ()
    chosen = [one for one in arguments if one.is_required or draw(st.booleans())]
    step = {"do": name, **{one.name: draw(_VALUES[one.name]) for one in chosen}}
    spoilt = draw(st.none() | st.sampled_from(sorted(step)))
    return {**step, spoilt: draw(_ANY)} if spoilt and draw(st.integers(0, 9)) == 0 else step


def _bench() -> Workbench:
    a, b = te.placeholder((16, 24), name="A"), te.placeholder((24, 32), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((16, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((16, 32), lambda i, j: c[i, j] * 2.0, name="D")
    return Workbench(make_task("f", tvm.IRModule({"main": te.create_prim_func([a, b, d])}), AVX2))


_BENCH = _bench()


@given(_ANY | st.lists(_ANY | st.fixed_dictionaries({"do": _PRIMITIVES}, optional={"block": _ANY})))
@_SETTINGS
def test_any_json_is_steps_or_a_refusal(reply: object) -> None:
    read = read_steps(reply)
    if isinstance(read, Verdict):
        assert read.code == "E_STEP"
        assert 0 < len(read.reason) <= 320
        assert read.reason.isprintable()
    else:
        assert all(isinstance(step, Step) for step in read)


@given(st.lists(_steps(), min_size=1, max_size=6))
@_SETTINGS
def test_any_plan_is_a_program_that_replays_or_a_refusal(reply: list[dict[str, Any]]) -> None:
    start = time.monotonic()
    read = read_steps(reply)
    found = read if isinstance(read, Verdict) else _BENCH.apply(Plan(read))
    if isinstance(found, Candidate):
        again = _BENCH.apply(Decisions("plan", trace_text(found.sch.trace)))
        assert isinstance(again, Candidate), json.dumps(reply)
        assert again.state == found.state
    else:
        assert found.code == "E_STEP", json.dumps(reply)
        assert found.reason.startswith("step ")
    assert time.monotonic() - start < 10
