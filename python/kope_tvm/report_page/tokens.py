# SPDX-License-Identifier: Apache-2.0
"""What of a model's tokens went to which section of the prompt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kope_tvm.chat.exchanges import Exchange
from kope_tvm.chat.tokens import bound
from kope_tvm.prompt.sections import sections

_HEAD = re.compile(r"^## (.*)$", re.MULTILINE)
_SYSTEM, _REPLY = "contract", "reply"


@dataclass(frozen=True)
class SectionTokens:
    """One section over all calls; tokens are estimated, never under."""

    section: str
    sent: int
    dropped: int
    """Kept out by the budget."""


def tokens_by_section(exchanges: Iterable[Exchange]) -> tuple[SectionTokens, ...]:
    """The largest first; what a model wrote is the section `reply`."""
    sent: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for one in exchanges:
        sent[_SYSTEM] += bound(one.request.system)
        sent[_REPLY] += one.reply.usage.completion_tokens
        for section, text in _sections_of(one.request.prompt):
            sent[section] += bound(text)
        dropped.update(one.request.dropped)
    found = [SectionTokens(name, sent[name], dropped[name]) for name in {*sent, *dropped}]
    return tuple(sorted(found, key=lambda one: (-one.sent, one.section)))


def _sections_of(prompt: str) -> Iterator[tuple[str, str]]:
    """Each section's name and text; what has a title of its own goes by that."""
    names = {section.TITLE: name for name, section in sections() if section.TITLE}
    parts = _HEAD.split(prompt)
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        yield names.get(title, title), text
