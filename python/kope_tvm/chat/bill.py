# SPDX-License-Identifier: Apache-2.0
"""What one call to a model costs, all its tries taken together."""

from __future__ import annotations

from kope_tvm.chat.budget import Budget, Reservation
from kope_tvm.chat.dialogue import Usage
from kope_tvm.chat.tokens import Calibration

_ABSURD = 16
"""Times the bound from which a server's count is nonsense rather than a finer tokenizer."""


class Bill:
    """Reserves before each try and settles after it; one try at a time."""

    def __init__(self, budget: Budget, calibration: Calibration) -> None:
        self._budget = budget
        self._calibration = calibration
        self._open: Reservation | None = None
        self._bound = 0
        self.num_tries = 0
        self.usage = Usage()
        """Of the tries that have ended."""

    def reserve(self, prompt_bound: int, max_output_tokens: int) -> bool:
        """Set aside what the next try may use; False where the budget has no room for it."""
        self._bound = prompt_bound
        raised = self._calibration.raised(prompt_bound)
        self._open = self._budget.reserve(raised, max_output_tokens)
        self.num_tries += self._open is not None
        return self._open is not None

    def settle(self, usage: Usage | None) -> None:
        """Count what the server says, or all that was set aside where it says nothing credible."""
        if self._open is None:
            return
        if usage is None or self._is_absurd(usage, self._open):
            return self.forfeit()
        self._add(self._budget.settle(self._open, usage))
        self._calibration.learn(self._bound, usage.prompt_tokens)

    def forfeit(self) -> None:
        """Count all that was set aside: what the model did with the request is not known."""
        if self._open is not None:
            self._add(self._budget.forfeit(self._open))

    def release(self) -> None:
        """Count a call without tokens: no model saw the request."""
        if self._open is not None:
            self._add(self._budget.release(self._open))

    def _is_absurd(self, usage: Usage, reserved: Reservation) -> bool:
        return (
            usage.prompt_tokens > _ABSURD * reserved.prompt_tokens
            or usage.completion_tokens > _ABSURD * reserved.completion_tokens
        )

    def _add(self, usage: Usage) -> None:
        self._open = None
        self.usage = Usage(
            self.usage.prompt_tokens + usage.prompt_tokens,
            self.usage.completion_tokens + usage.completion_tokens,
            self.usage.is_estimated or usage.is_estimated,
        )
