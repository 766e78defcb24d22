# SPDX-License-Identifier: Apache-2.0
"""A hard budget for a model's tokens, money and calls: what is in flight counts as spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock

from kope_tvm.chat.dialogue import Spent, Usage
from kope_tvm.errors import UsageError

_MOST_TOKENS = 100_000_000
"""Above what any one call can use; a server that reports more reports nonsense."""


@dataclass(frozen=True)
class Price:
    """What an endpoint charges; 0 where it is not known."""

    usd_per_million_input: float = 0.0
    usd_per_million_output: float = 0.0

    @property
    def is_known(self) -> bool:
        return self.usd_per_million_input > 0 and self.usd_per_million_output > 0

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The money for so many tokens."""
        millionths = (
            prompt_tokens * self.usd_per_million_input
            + completion_tokens * self.usd_per_million_output
        )
        return millionths / 1e6


@dataclass(frozen=True)
class Limits:
    """The most that a run may use of a model; None is without a limit."""

    max_tokens: int | None = None
    max_usd: float | None = None
    max_calls: int | None = None


@dataclass(frozen=True, eq=False)
class Reservation:
    """The most that one call in flight can use."""

    prompt_tokens: int
    completion_tokens: int


class Budget:
    """Lets a call start only where it cannot exceed a limit, whatever the calls in flight use."""

    def __init__(
        self,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        max_calls: int | None = None,
        price: Price | None = None,
    ) -> None:
        """Raises UsageError for a limit in money without a price, and for a negative limit."""
        self._price = price or Price()
        self.limits = checked_limits(Limits(max_tokens, max_usd, max_calls), self._price)
        self._lock = Lock()
        self._open: set[Reservation] = set()
        self._least: tuple[int, int] | None = None
        self._calls = 0
        self._prompt_tokens = 0
        self._completion_tokens = 0

    @property
    def spent(self) -> Spent:
        """What is known to be used, calls in flight left out."""
        with self._lock:
            return Spent(
                self._calls,
                self._prompt_tokens,
                self._completion_tokens,
                self._price.usd(self._prompt_tokens, self._completion_tokens),
            )

    @property
    def left_tokens(self) -> int | None:
        """Tokens that no call has used or may still use; None without a limit."""
        most = self.limits.max_tokens
        with self._lock:
            return None if most is None else max(0, most - sum(self._committed()))

    @property
    def left_calls(self) -> int | None:
        """Calls that may still start; None without a limit."""
        most = self.limits.max_calls
        with self._lock:
            return None if most is None else max(0, most - self._calls - len(self._open))

    @property
    def is_used_up(self) -> bool:
        """Whether no call may start now that is as small as the smallest wanted so far."""
        with self._lock:
            return not self._fits(*(self._least or (1, 1)))

    def reserve(self, prompt_tokens_bound: int, max_output_tokens: int) -> Reservation | None:
        """Set aside the most that a call can use; None where that could exceed a limit.

        Every HTTP request is a call: one that is sent again needs a reservation of its own.
        """
        wanted = prompt_tokens_bound, max_output_tokens
        with self._lock:
            self._least = min(self._least or wanted, wanted, key=sum)
            if not self._fits(*wanted):
                return None
            reservation = Reservation(prompt_tokens_bound, max_output_tokens)
            self._open.add(reservation)
            return reservation

    def settle(self, reservation: Reservation, usage: Usage) -> Usage:
        """Count what a call used instead of what was set aside; the usage that was counted.

        More than was set aside counts in full, and closes the budget where it passes a limit. What
        no call can use counts as unknown. A reservation counts once: later words on it are ignored.
        """
        if not is_credible(usage):
            return self.forfeit(reservation)
        return self._count(reservation, usage)

    def forfeit(self, reservation: Reservation) -> Usage:
        """Count all that was set aside, for a call whose usage is not known."""
        most = Usage(reservation.prompt_tokens, reservation.completion_tokens, is_estimated=True)
        return self._count(reservation, most)

    def release(self, reservation: Reservation) -> Usage:
        """Count a call but no tokens: the model never saw it (no connection, 429)."""
        return self._count(reservation, Usage())

    def _count(self, reservation: Reservation, usage: Usage) -> Usage:
        with self._lock:
            if reservation not in self._open:
                return Usage()
            self._open.remove(reservation)
            self._calls += 1
            self._prompt_tokens += usage.prompt_tokens
            self._completion_tokens += usage.completion_tokens
            return usage

    def _fits(self, prompt_tokens: int, completion_tokens: int) -> bool:
        prompt, completion = self._committed()
        prompt, completion = prompt + prompt_tokens, completion + completion_tokens
        pairs = (
            (prompt + completion, self.limits.max_tokens),
            (self._price.usd(prompt, completion), self.limits.max_usd),
            (self._calls + len(self._open) + 1, self.limits.max_calls),
        )
        return all(most is None or used <= most for used, most in pairs)

    def _committed(self) -> tuple[int, int]:
        """Tokens in and out that are used or set aside."""
        return (
            self._prompt_tokens + sum(each.prompt_tokens for each in self._open),
            self._completion_tokens + sum(each.completion_tokens for each in self._open),
        )


def checked_limits(limits: Limits, price: Price) -> Limits:
    """The limits; raises UsageError for a negative one, and for money without a price."""
    for name, most in vars(limits).items():
        if most is not None and not (most >= 0 and math.isfinite(most)):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} {most}: expected a number that is not negative")
    if limits.max_usd is not None and not price.is_known:
        raise UsageError(
            f"--max-usd {limits.max_usd:g}: the price of the model is not known; give "
            "usd_per_million_input and usd_per_million_output in kope.toml, or use --max-tokens"
        )
    return limits


def is_credible(usage: Usage) -> bool:
    """Whether a server's count can be true: integers, some prompt, no more than a call can hold."""
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    return (
        type(prompt) is int
        and type(completion) is int
        and 0 < prompt <= _MOST_TOKENS
        and 0 <= completion <= _MOST_TOKENS
    )
