# SPDX-License-Identifier: Apache-2.0
"""Means, shares, intervals and curves of a bench run, from numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kope_tvm.bench.again import repeated, spell
from kope_tvm.bench.curve import reached
from kope_tvm.bench.output import as_json, markdown, sheets
from kope_tvm.bench.result import Bench, Configuration, Operator, Tuned
from kope_tvm.bench.run import merged
from kope_tvm.bench.statistics import fast_share, geomean, geomean_interval, percentile
from kope_tvm.bench.stem import file_stem
from kope_tvm.bench.summary import against, totals, trials_to
from kope_tvm.bench.talk import Talk

TALK = Talk(4, 0, 3, 3, 6, (6, 6, 5, 4, 4, 2), 2, 1, 6000, 2000, 2000)
CURVE = ((1, 4e-3), (3, 2e-3), (20, 1e-3))


def operator(
    spec: str, own: float, stock: float, untuned: float, *, tuned: bool = True
) -> Operator:
    """Of contenders that always take the same time, in milliseconds."""
    secs = {"kope": own, "kope, warm@4": own, "metaschedule": stock, "untuned": untuned}
    turns = {name: (ms / 1e3,) * 5 for name, ms in secs.items()}
    runs = {
        "kope": Tuned(10.0, 20, 1, 0.1, 2.0, tuned, "sketch", "sketch", {"E_X": 1}, CURVE, TALK),
        "kope, warm@4": Tuned(2.0, 4, is_optimised=tuned, curve=((1, 1e-3),)),
        "metaschedule": Tuned(20.0, 32),
    }
    return Operator(spec, turns, runs, roof_secs=own / 4e3)


def bench(*operators: Operator) -> Bench:
    told = Configuration("toy", "host", 32, (1,), ("metaschedule",), (), "none", "", 5, 0.03)
    return Bench(told, "kope bench --suite toy", "2026-11-30", {}, {}, operators)


FAST, FAIR, LEFT = (
    operator("op:fast", 1.0, 4.0, 16.0),
    operator("op:fair", 1.0, 1.0, 4.0),
    operator("op:left", 1.0, 0.5, 1.01, tuned=False),
)
TOY = bench(FAST, FAIR, LEFT)


def test_geomean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geomean([4.0, 0.25]) == pytest.approx(1.0)
    assert geomean([]) == 1.0


def test_a_quarter_of_the_values_lies_below_the_25th_percentile() -> None:
    assert percentile([1, 2, 3, 4, 5], 0.25) == 2.0
    assert math.isnan(percentile([], 0.25))


def test_fast_p_counts_what_is_beyond_the_bar_and_the_wrong_ones_never() -> None:
    assert [fast_share([0.9, 1.0, 1.3], 4, bar) for bar in (0, 1, 1.2)] == [0.75, 0.25, 0.25]
    assert fast_share([], 0, 1) == 0.0


def test_an_interval_of_equal_values_has_no_width() -> None:
    found = geomean_interval([2.0] * 10)
    assert (found.low, found.high) == pytest.approx((2.0, 2.0))


def test_an_interval_holds_the_figure_and_narrows_with_more_values() -> None:
    few, many = geomean_interval([1.0, 4.0] * 4), geomean_interval([1.0, 4.0] * 64)
    assert few.value == pytest.approx(2.0)
    assert few.low < few.value < few.high
    assert many.high - many.low < few.high - few.low
    assert geomean_interval([1.0, 4.0] * 4) == few


@pytest.mark.parametrize(
    ("speed", "share", "trial"),
    [(1.0, 1.0, 20), (1.0, 0.5, 3), (2.0, 1.0, 3), (4.0, 1.0, 1), (0.5, 1.0, None)],
)
def test_a_curve_reaches_a_peer_where_its_end_measured_beside_it_says(
    speed: float, share: float, trial: int | None
) -> None:
    assert reached(CURVE, speed, share) == trial


def test_an_empty_curve_reaches_nobody() -> None:
    assert reached((), 9.0, 0.9) is None


def test_kope_beside_stock() -> None:
    found = against(TOY, "metaschedule")
    assert found.geomean.value == pytest.approx(2 ** (1 / 3))
    assert (found.num_operators, found.num_optimised) == (3, 2)
    assert found.optimised.value == pytest.approx(2.0)
    assert found.least == pytest.approx(0.5)
    assert found.least_of == "op:left"
    assert found.fast["0"] == pytest.approx(2 / 3)
    assert found.fast["1.5"] == pytest.approx(1 / 3)


def test_a_function_left_untuned_counts_as_one_beside_itself() -> None:
    assert against(TOY, "untuned").geomean.value == pytest.approx(64 ** (1 / 3))


def test_trials_to_reach_stock_are_counted_for_cold_and_warm_runs() -> None:
    assert trials_to(FAST, "kope", "metaschedule", 1.0) == 1
    assert trials_to(FAIR, "kope", "metaschedule", 1.0) == 20
    assert trials_to(LEFT, "kope", "metaschedule", 0.5) is None
    whole = {(one.contender, one.share): one for one in against(TOY, "metaschedule").reached}
    assert whole["kope", 1.0].num_reached == 2
    assert whole["kope", 1.0].num_early == 1
    assert whole["kope, warm@4", 1.0].num_early == 2


def test_totals_add_up_what_kope_and_a_model_took() -> None:
    found = totals(TOY)
    assert found.roof_share == pytest.approx(0.25)
    assert found.own_share == pytest.approx(0.1)
    assert found.wall_secs["kope"] == 30.0
    assert (found.calls, found.tokens, found.successes) == (12, 24000, 6)
    assert (found.near_misses, found.mended) == (6, 3)


def test_json_holds_ratios_and_no_infinity() -> None:
    data = as_json(bench(FAST))
    assert data["ratios"]["op:fast"]["metaschedule"] == pytest.approx(4.0)
    assert data["geomean"]["untuned"] == pytest.approx(16.0)


def test_markdown_says_command_configuration_and_whether_a_model_answered_live() -> None:
    told = replace(TOY.configuration, model="replayed: study")
    text = markdown(TOY, list(sheets(replace(TOY, configuration=told))))
    assert text.startswith("`kope bench --suite toy`")
    assert "| op:fast | 1.00 | 4.00 | 16.00 |" in text
    assert "model: replayed: study" in text


def test_repeats_are_merged_turn_by_turn() -> None:
    again = operator("op:fast", 2.0, 4.0, 16.0)
    slower = replace(
        again, tuned={name: replace(t, wall_secs=30.0) for name, t in again.tuned.items()}
    )
    both = merged([FAST, slower])
    assert len(both.run_secs["kope"]) == 10
    assert both.tuned["kope"].wall_secs == 20.0


def test_a_ratio_comes_out_again_within_noise() -> None:
    near = operator("op:fast", 1.0, 4.1, 16.0)
    far = operator("op:fast", 1.0, 5.0, 16.0)
    found = [repeated(FAST, other, "metaschedule") for other in (near, far)]
    assert [one.is_within for one in found] == [True, False]
    assert spell(found).endswith("1 of 2 ratios came out again within noise")


def test_the_usual_dtype_goes_without_saying_in_file_names() -> None:
    assert file_stem("op:softmax:m=512,n=1024,dtype=float32") == "softmax-m=512-n=1024"
    assert file_stem("op:matmul:m=1,dtype=float16") == "matmul-m=1-dtype=float16"
