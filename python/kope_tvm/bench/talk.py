# SPDX-License-Identifier: Apache-2.0
"""What became of a model's words: how far its proposals came, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kope_tvm.chat.dialogue import Outcome
from kope_tvm.chat.exchanges import Exchange

STAGES = ("reply", "parsed", "legal", "built", "correct", "faster")
"""In the order in which a proposal comes through them; `Outcome.stage` is the last it reached."""


@dataclass(frozen=True)
class Talk:
    """The exchanges of one tuning, counted."""

    calls: int
    failed_calls: int
    """The endpoint gave no answer."""
    replies: int
    """To a request for proposals."""
    legal_replies: int
    """Of which at least one proposal became a program, at once or after one repair."""
    proposals: int
    reached: tuple[int, ...]
    """How many proposals came at least so far, by `STAGES`, repairs counted as their own."""
    repaired: int
    mended: int
    """Near misses that a repair turn was spent on, and those of them that came out right."""
    prompt_tokens: int
    completion_tokens: int
    max_prompt_tokens: int

    @property
    def tokens_per_success(self) -> float:
        """A success is a proposal faster than all before it."""
        faster = self.reached[-1]
        total = self.prompt_tokens + self.completion_tokens
        return total / faster if faster else float("inf")


def talk_of(exchanges: Sequence[Exchange]) -> Talk:
    """Count one tuning's exchanges."""
    asked = [one for one in exchanges if one.request.purpose == "propose" and not one.reply.error]
    mends = [one for one in exchanges if one.request.purpose == "repair"]
    outcomes = [outcome for one in exchanges for outcome in one.outcomes]
    usages = [one.reply.usage for one in exchanges]
    return Talk(
        calls=len(exchanges),
        failed_calls=sum(1 for one in exchanges if one.reply.error),
        replies=len(asked),
        legal_replies=sum(1 for one in asked if _is_legal(one, mends)),
        proposals=sum(1 for outcome in outcomes if outcome.lane),
        reached=tuple(sum(1 for o in outcomes if o.lane and _came(o, stage)) for stage in STAGES),
        repaired=len(_mended_states(mends, least="reply")),
        mended=len(_mended_states(mends, least="correct")),
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        max_prompt_tokens=max((usage.prompt_tokens for usage in usages), default=0),
    )


def _came(outcome: Outcome, stage: str) -> bool:
    return STAGES.index(outcome.stage) >= STAGES.index(stage)


def _is_legal(asked: Exchange, mends: Sequence[Exchange]) -> bool:
    if any(_came(outcome, "legal") for outcome in asked.outcomes):
        return True
    states = {outcome.state for outcome in asked.outcomes if outcome.state}
    states.add(f"reply-{asked.request.subject}")
    first = [one for one in mends if one.request.subject in {f"{state}:1" for state in states}]
    return any(_came(outcome, "legal") for one in first for outcome in one.outcomes)


def _mended_states(mends: Sequence[Exchange], *, least: str) -> set[str]:
    """The first failures of the chains of repairs in which something came so far."""
    origin: dict[str, str] = {}
    found: set[str] = set()
    for one in mends:
        failed = one.request.subject.rpartition(":")[0]
        first = origin.get(failed, failed)
        origin |= {outcome.state: first for outcome in one.outcomes if outcome.state}
        if least == "reply" or any(_came(outcome, least) for outcome in one.outcomes):
            found.add(first)
    return found
