# SPDX-License-Identifier: Apache-2.0
"""The estimate before a call is not under what tokenizers make of a text, and not far over."""

from __future__ import annotations

import json
import random

import pytest

from kope_tvm.chat.tokens import Calibration, bound, messages_bound

SCRIPT = """\
@T.prim_func(s_tir=True)
def main(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j, k in T.grid(512, 512, 512):
        with T.sblock("T_matmul_NN"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                T_matmul_NN[v_i, v_j] = T.float32(0.0)
            T_matmul_NN[v_i, v_j] = T_matmul_NN[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""
TRACE = json.dumps(
    [[["GetSBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]]]
)
PROSE = (
    "The incumbent takes 213 microseconds and reaches a third of the measured roof. Vectorize "
    "the inner loop, keep the accumulator in registers, and split the reduction."
)
NUMBERS = " ".join(f"d{i} = [1, 2, {i}, 64] -> 0.{i:03d}x" for i in range(12))
IDENTIFIERS = "v_ax0_fused_i1 T_softmax_maxelem compute_local_reindex conv2d_NCHWc lv123_pad"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        # What cl100k, Qwen 3.6, Mistral 3 and SmolLM2 count.
        (SCRIPT, (176, 201, 242, 229)),
        (TRACE, (42, 42, 42, 42)),
        (PROSE, (32, 34, 38, 36)),
        (NUMBERS, (252, 292, 292, 292)),
        (IDENTIFIERS, (25, 27, 38, 37)),
        (HEX, (43, 59, 60, 59)),
    ],
    ids=["script", "trace", "prose", "numbers", "identifiers", "hex"],
)
def test_bound_is_above_real_tokenizers_and_below_twice_their_mean(
    text: str, counts: tuple[int, ...]
) -> None:
    assert max(counts) <= bound(text) <= 1.6 * sum(counts) / len(counts)


def test_nothing_is_no_token() -> None:
    assert bound("") == 0


@pytest.mark.parametrize("text", ["日本語", "µ → ≥", "🚀", "\ud800"])
def test_beyond_ascii_every_byte_may_be_a_token(text: str) -> None:
    beyond = "".join(char for char in text if not char.isascii())
    assert bound(text) >= len(beyond.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("char", [*"aZ9 \t\n\r\x00.,_({é"])
def test_no_long_run_is_free(char: str) -> None:
    assert bound(char * 160) >= 10


def test_a_text_costs_no_less_than_its_parts_apart_from_seams() -> None:
    rng = random.Random(3)
    pieces = [SCRIPT, TRACE, PROSE, NUMBERS]
    for _ in range(50):
        chosen = rng.choices(pieces, k=3)
        assert abs(bound("\n".join(chosen)) - sum(map(bound, chosen))) <= 12


def test_messages_cost_their_template_too() -> None:
    assert messages_bound("", "") == 32
    assert messages_bound(PROSE, SCRIPT) == bound(PROSE) + bound(SCRIPT) + 32


def test_calibration_never_lowers_a_bound() -> None:
    calibration = Calibration()
    calibration.learn(1000, 600)
    assert calibration.raised(500) == 500


def test_calibration_keeps_the_worst_ratio() -> None:
    calibration = Calibration()
    calibration.learn(1000, 1500)
    calibration.learn(1000, 1100)
    assert calibration.raised(500) == 750


def test_a_short_request_tells_what_the_server_adds_and_no_ratio() -> None:
    calibration = Calibration()
    calibration.learn(20, 220)
    assert calibration.raised(2000) == 2200
