# SPDX-License-Identifier: Apache-2.0
"""Whether an endpoint is worth waiting for: given up when silent or gone, tried now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock

_MOST_FAILURES = 3
"""Calls in a row that end in an error before an endpoint that does answer is given up."""

_MOST_DOUBLINGS = 5

_LONGEST_REST_SECS = 3600.0
"""A server that asks for more is asked again all the same."""


@dataclass(frozen=True, eq=False)
class Pass:
    """Leave to make one call."""

    is_probe: bool
    """It finds out whether an endpoint that was given up is back; nobody waits for it."""


class Breaker:
    """Keeps watch over one endpoint; all times are of the monotonic clock."""

    def __init__(self, name: str, deadline_secs: float) -> None:
        self._name = name
        self._deadline_secs = deadline_secs
        self._lock = Lock()
        self._notices: list[str] = []
        self._is_given_up = False
        self._num_failures = 0
        self._num_probes = 0
        self._answered_at = float("-inf")
        self._probe_at = 0.0
        self._is_probing = False

    @property
    def notices(self) -> tuple[str, ...]:
        """A line each time the endpoint was given up or came back."""
        return tuple(self._notices)

    @property
    def is_given_up(self) -> bool:
        return self._is_given_up

    @property
    def would_admit(self) -> bool:
        """Whether a call may be made now."""
        is_probe_due = not self._is_probing and time.monotonic() >= self._probe_at
        return not self._is_given_up or is_probe_due

    def admit(self) -> Pass | None:
        """Leave to make a call now, if any; to be handed back when the call is over.

        An endpoint that was given up is asked by one call at a time, ever more seldom.
        """
        with self._lock:
            if not self.would_admit:
                return None
            self._is_probing = self._is_given_up or self._is_probing
            return Pass(self._is_given_up)

    def holds(self, leave: Pass) -> bool:
        """Whether a call that had to queue may still be made."""
        return leave.is_probe or not self._is_given_up

    def answered(self) -> None:
        """The endpoint did its work, whatever it said."""
        with self._lock:
            self._answered_at = time.monotonic()
            self._num_failures = self._num_probes = 0
            if self._is_given_up:
                self._is_given_up = False
                self._notices.append(f"endpoint {self._name} answers again")

    def silent(self, leave: Pass, sent_at: float) -> None:
        """A whole deadline passed without an answer to a call."""
        why = f"gave no answer within {self._deadline_secs:g} s"
        if sent_at > self._answered_at:
            self.gone(leave, why)
        else:
            self.failed(leave, why)

    def failed(self, leave: Pass, why: str) -> None:
        """The endpoint answered with an error."""
        with self._lock:
            self._num_failures += 1
            is_last = self._num_failures >= _MOST_FAILURES
        if is_last or leave.is_probe:
            self.gone(leave, why)

    def gone(self, leave: Pass, why: str, rest_secs: float = 0.0) -> None:
        """There is no use in asking soon, and none before `rest_secs`."""
        with self._lock:
            self._num_probes += leave.is_probe
            if not self._is_given_up:
                self._is_given_up = True
                self._notices.append(f"endpoint {self._name} {why}; going on without it")
            pause_secs = self._deadline_secs * 2 ** min(self._num_probes, _MOST_DOUBLINGS)
            wait_secs = max(pause_secs, min(rest_secs, _LONGEST_REST_SECS))
            self._probe_at = max(self._probe_at, time.monotonic() + wait_secs)

    def hand_back(self, leave: Pass) -> None:
        """The call is over."""
        with self._lock:
            self._is_probing = self._is_probing and not leave.is_probe
