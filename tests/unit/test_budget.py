# SPDX-License-Identifier: Apache-2.0
"""A budget holds whatever servers say and however many calls are in flight."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import pytest

from kope_tvm.chat.budget import Budget, Price, Reservation
from kope_tvm.chat.dialogue import Spent, Usage
from kope_tvm.errors import UsageError

PRICE = Price(usd_per_million_input=2.0, usd_per_million_output=8.0)
ROUNDS, TASKS, IN_FLIGHT = 1000, 7, 8


def test_a_reservation_counts_until_it_is_settled() -> None:
    budget = Budget(max_tokens=1000)
    first = budget.reserve(400, 200)
    assert first is not None
    assert budget.left_tokens == 400
    assert budget.reserve(301, 100) is None
    assert budget.spent == Spent()
    assert budget.settle(first, Usage(350, 50)) == Usage(350, 50)
    assert budget.spent == Spent(1, 350, 50)
    assert budget.left_tokens == 600


def test_the_last_token_may_be_reserved_and_none_after_it() -> None:
    budget = Budget(max_tokens=600)
    assert budget.reserve(500, 100) is not None
    assert budget.is_used_up
    assert budget.reserve(1, 0) is None


def test_it_is_used_up_when_the_smallest_call_so_far_would_not_fit() -> None:
    budget = Budget(max_tokens=1000)
    first = budget.reserve(500, 100)
    assert first is not None
    used_up = [budget.is_used_up]
    budget.settle(first, Usage(300, 100))
    used_up.append(budget.is_used_up)
    assert budget.reserve(900, 100) is None
    used_up.append(budget.is_used_up)
    assert budget.reserve(501, 99) is not None
    used_up.append(budget.is_used_up)
    assert used_up == [True, False, False, True]


def test_calls_in_flight_count_against_the_calls() -> None:
    budget = Budget(max_calls=2)
    first, second = budget.reserve(10, 10), budget.reserve(10, 10)
    assert first is not None
    assert second is not None
    assert budget.reserve(10, 10) is None
    budget.release(first)
    assert budget.reserve(10, 10) is None
    assert budget.spent == Spent(1)
    assert budget.left_tokens is None


def test_money_is_tokens_times_their_price() -> None:
    budget = Budget(max_usd=0.01, price=PRICE)
    first = budget.reserve(1000, 1000)
    assert first is not None
    assert budget.reserve(1, 0) is None
    budget.settle(first, Usage(500, 500))
    assert budget.spent.usd == pytest.approx(0.005)
    assert budget.reserve(500, 500) is not None


def test_many_cheap_calls_end_at_the_limit_to_the_cent() -> None:
    budget = Budget(max_usd=0.1, price=Price(1.0, 1.0))
    calls = 0
    while (reservation := budget.reserve(700, 300)) is not None:
        budget.settle(reservation, Usage(700, 300))
        calls += 1
    assert calls == 100  # a thousand tokens at a dollar a million each; floats add up to 99


@pytest.mark.parametrize(
    "usage",
    [
        Usage(-1, 10),
        Usage(10, -1),
        Usage(0, 10),
        Usage(10**12, 10),
        Usage(float("nan"), 10),  # type: ignore[arg-type]
        Usage("12", 10),  # type: ignore[arg-type]
        Usage(True, 10),
        Usage(12.5, 10),  # type: ignore[arg-type]
        Usage(None, None),  # type: ignore[arg-type]
    ],
)
def test_usage_that_cannot_be_true_counts_as_the_whole_reservation(usage: Any) -> None:
    budget = Budget(max_tokens=1000)
    reservation = budget.reserve(300, 100)
    assert reservation is not None
    assert budget.settle(reservation, usage) == Usage(300, 100, is_estimated=True)
    assert budget.spent == Spent(1, 300, 100)


def test_usage_above_the_reservation_counts_in_full_and_closes_the_budget() -> None:
    budget = Budget(max_tokens=1000)
    reservation = budget.reserve(300, 100)
    assert reservation is not None
    budget.settle(reservation, Usage(900, 5000))
    assert budget.spent.tokens == 5900
    assert (budget.left_tokens, budget.is_used_up) == (0, True)
    assert budget.reserve(1, 1) is None


def test_a_call_counts_once() -> None:
    budget = Budget(max_tokens=1000)
    reservation = budget.reserve(300, 100)
    assert reservation is not None
    budget.forfeit(reservation)
    budget.settle(reservation, Usage(10, 10))
    budget.release(reservation)
    assert budget.spent == Spent(1, 300, 100)


@pytest.mark.parametrize("limits", [{"max_tokens": 0}, {"max_calls": 0}])
def test_a_limit_of_nothing_admits_nothing(limits: dict[str, int]) -> None:
    assert Budget(**limits).is_used_up  # type: ignore[arg-type]


def test_money_needs_both_prices() -> None:
    for price in (Price(), Price(usd_per_million_input=2.0)):
        with pytest.raises(UsageError, match="usd_per_million_input and usd_per_million_output"):
            Budget(max_usd=1.0, price=price)


@pytest.mark.parametrize("most", [-1.0, float("nan"), float("inf")])
def test_a_limit_is_a_number_that_is_not_negative(most: float) -> None:
    with pytest.raises(UsageError, match="--max-usd"):
        Budget(max_usd=most, price=PRICE)


class Server:
    """Uses tokens as told, and keeps count of what really was used."""

    def __init__(self, budget: Budget, most_tokens: int, manner: str) -> None:
        self.budget = budget
        self.most_tokens = most_tokens
        self.manner = manner
        self.used_prompt = self.used_completion = self.calls = self.calls_after_the_end = 0
        self.most_committed = 0
        self._lock = Lock()

    def serve(self, seed: int) -> None:
        """One call, from its reservation to its end."""
        rng = random.Random(seed)
        bound, most = rng.randint(200, 2500), rng.choice((200, 600))
        is_over = self.budget.spent.tokens >= self.most_tokens
        reservation = self.budget.reserve(bound, most)
        if reservation is None:
            return
        self._watch(is_over)
        time.sleep(rng.random() * 2e-4)  # other calls start and end meanwhile
        used = self._used(rng, bound, most)
        with self._lock:
            self.calls += 1
            self.used_prompt += used.prompt_tokens
            self.used_completion += used.completion_tokens
        self._end(rng, reservation, used)

    def _watch(self, is_over: bool) -> None:
        left = self.budget.left_tokens or 0
        with self._lock:
            self.calls_after_the_end += is_over
            self.most_committed = max(self.most_committed, self.most_tokens - left)

    def _used(self, rng: random.Random, bound: int, most: int) -> Usage:
        if self.manner == "at":
            return Usage(bound, most)
        factor = 3 if self.manner == "over" else 1
        return Usage(rng.randint(1, bound * factor), rng.randint(0, most * factor))

    def _end(self, rng: random.Random, reservation: Reservation, used: Usage) -> None:
        """An invalid reply is paid like any other; a time-out and a silent server are unknown."""
        kind = rng.choice(("told", "silent", "nonsense", "late"))
        if self.manner in {"at", "over"} or kind == "told":
            self.budget.settle(reservation, used)
        elif kind == "nonsense":
            self.budget.settle(reservation, Usage(-5, 10**15))
        else:
            self.budget.forfeit(reservation)
        if kind == "late":
            self.budget.settle(reservation, used)


@pytest.mark.parametrize("manner", ["at", "below", "over"])
@pytest.mark.parametrize("max_tokens", [50_000, 400_000])
def test_a_budget_holds_over_a_thousand_rounds(manner: str, max_tokens: int) -> None:
    budget = Budget(max_tokens, max_usd=1.5, max_calls=900, price=PRICE)
    server = Server(budget, max_tokens, manner)
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        list(threads.map(server.serve, range(ROUNDS)))
    spent = budget.spent
    assert spent.calls == server.calls <= 900
    assert spent.prompt_tokens >= server.used_prompt
    assert spent.completion_tokens >= server.used_completion
    assert server.calls > max_tokens // (3 * 3100)
    if manner != "over":
        assert max(spent.tokens, server.most_committed) <= max_tokens
        assert spent.usd <= 1.5
    assert server.calls_after_the_end == 0


def test_threads_never_set_aside_more_than_there_is() -> None:
    budget = Budget(max_tokens=10_000)
    with ThreadPoolExecutor(TASKS) as threads:
        held = list(threads.map(lambda _: budget.reserve(90, 10), range(ROUNDS)))
    assert sum(each is not None for each in held) == 100
    assert budget.left_tokens == 0


def test_a_server_that_takes_more_than_it_may_ends_the_calls() -> None:
    """At most the calls that were in flight go beyond the limit."""
    budget = Budget(max_tokens=20_000)
    started = 0
    in_flight: list[Reservation] = []
    while True:
        while len(in_flight) < IN_FLIGHT and (held := budget.reserve(1000, 600)) is not None:
            in_flight.append(held)
            started += 1
        if not in_flight:
            break
        budget.settle(in_flight.pop(0), Usage(3000, 1800))
    assert started < 20_000 // 4800 + IN_FLIGHT + 1
    assert budget.spent.tokens == started * 4800
