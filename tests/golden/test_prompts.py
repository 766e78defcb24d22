# SPDX-License-Identifier: Apache-2.0
"""The prompts word for word, and that they stay within their budget."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from prompt_views import SIMULATED, bench_of, fresh_view, k1_bench_of, later_view, trials_of

from kope_tvm.prompt.brief import Brief, brief
from kope_tvm.prompt.repair import repair_brief

MATMUL = "op:matmul:m=81,n=41,k=19"
SOFTMAX = "op:softmax:m=512,n=1024"

Golden = Callable[[str, str], None]


def as_text(made: Brief) -> str:
    schema = json.dumps(made.schema, indent=1)
    dropped = "\n".join(f"{one.section} {one.tokens}" for one in made.dropped)
    return (
        f"=== system\n{made.system}\n=== prompt\n{made.prompt}\n=== schema\n{schema}\n"
        f"=== states {' '.join(made.states)}\n=== at most {made.tokens_bound} tokens; dropped:\n"
        f"{dropped}\n"
    )


@pytest.mark.parametrize(("name", "spec"), [("matmul", MATMUL), ("softmax", SOFTMAX)])
def test_first_prompt(name: str, spec: str, golden: Golden) -> None:
    golden(f"{name}_first", as_text(brief(fresh_view(bench_of(spec)))))


@pytest.mark.parametrize(("name", "spec"), [("matmul", MATMUL), ("softmax", SOFTMAX)])
def test_later_prompt(name: str, spec: str, golden: Golden) -> None:
    golden(f"{name}_later", as_text(brief(later_view(bench_of(spec)))))


def test_later_prompt_of_a_simulated_board(golden: Golden) -> None:
    made = brief(later_view(k1_bench_of(MATMUL), SIMULATED))
    assert "feedback" not in {one.section for one in made.dropped}
    golden("matmul_k1_later", as_text(made))


def test_repair_prompt(golden: Golden) -> None:
    bench = bench_of(MATMUL)
    view, failed = later_view(bench), trials_of(bench)[3]
    made = repair_brief(view, failed, "wrong in rows 63..80, all columns: the tail of i0")
    assert made.tokens_bound <= 1200
    golden("matmul_repair", as_text(made))
