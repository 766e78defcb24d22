# SPDX-License-Identifier: Apache-2.0
"""One call's messages under a hard limit of tokens, and what is needed to read the reply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from kope_tvm.chat.tokens import bound, messages_bound
from kope_tvm.prompt.packing import Dropped, Part, cut_to, pack
from kope_tvm.prompt.schema import reply_schema
from kope_tvm.prompt.sections import sections
from kope_tvm.prompt.view import REPLY_TOKENS, View

_MOST_SCHEMA_TOKENS = 700
_count = lru_cache(maxsize=4096)(bound)
"""Most pieces of a prompt were in the one before."""


@dataclass(frozen=True)
class Brief:
    """What is sent, and what is kept to understand the answer."""

    system: str = field(repr=False)
    prompt: str = field(repr=False)
    schema: Mapping[str, Any] = field(repr=False)
    states: Mapping[str, str] = field(repr=False)
    """Each program that the prompt names, as JSON `{"lane", "space", "text", "state"}`."""
    tokens_bound: int
    """Of system, prompt and schema with what a chat template adds; never under."""
    dropped: tuple[Dropped, ...] = ()
    reply_tokens: int = REPLY_TOKENS
    cites: tuple[str, ...] = ()
    """States that experience in the prompt led to: what comes of the reply is credited to them."""

    @property
    def dropped_tokens(self) -> dict[str, int]:
        """By section."""
        found: dict[str, int] = {}
        for each in self.dropped:
            found[each.section] = found.get(each.section, 0) + each.tokens
        return found


def brief(view: View) -> Brief:
    """The prompt of a round."""
    schema = reply_schema(view.lanes, view.programs, view.notes)
    parts = [Part(name, section.TITLE, tuple(section.items(view))) for name, section in sections()]
    states = {program.name: program.text for program in view.programs}
    packed = packed_brief(parts, schema, states, view.limit_tokens)
    cites = tuple(dict.fromkeys(filter(None, (one.state for one in view.transitions))))
    return replace(packed, reply_tokens=view.reply_tokens, cites=cites)


def brief_of(view: View, system: str, prompt: str) -> Brief:
    """A brief of ready texts, whatever their length, with all that reading the reply takes."""
    schema = reply_schema(view.lanes, view.programs, view.notes)
    states = {program.name: program.text for program in view.programs}
    tokens = messages_bound(system, prompt) + _count(_compact(schema))
    return Brief(system, prompt, schema, states, tokens, reply_tokens=view.reply_tokens)


def packed_brief(
    parts: Sequence[Part], schema: Mapping[str, Any], states: Mapping[str, str], limit: int
) -> Brief:
    """Parts without a title make up the system message, which is packed first."""
    system = "\n".join(item.text for part in parts if not part.title for item in part.items)
    schema = _affordable(schema, limit)
    schema_text = _compact(schema)
    left = limit - _count(schema_text) - messages_bound("", "")
    system = cut_to(system, max(left, 0), _count)
    packed = pack([part for part in parts if part.title], max(left - _count(system), 0), _count)
    return Brief(
        system,
        packed.text,
        schema,
        states,
        messages_bound(system, packed.text) + _count(schema_text),
        packed.dropped,
    )


def _affordable(schema: Mapping[str, Any], limit: int) -> Mapping[str, Any]:
    """The schema, or any object where the prompt would be left too little."""
    is_small = _count(_compact(schema)) <= min(_MOST_SCHEMA_TOKENS, limit // 3)
    return schema if is_small else {"type": "object"}


def _compact(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"))
