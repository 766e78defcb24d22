# SPDX-License-Identifier: Apache-2.0
"""Reads a model's reply about scripts: untrusted text in, proposals and named refusals out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kope_tvm.mlir.script_proposal import ScriptProposal, script_proposal_from
from kope_tvm.outcome import refuse
from kope_tvm.prompt.json_text import UnreadableError, parsed
from kope_tvm.prompt.reply import MOST_PROPOSALS, Refused
from kope_tvm.proposal import Origin

_PIECE_CHARS = 2000
_REASON_CHARS = 300


@dataclass(frozen=True)
class ScriptReading:
    """What a reply said."""

    proposals: tuple[ScriptProposal, ...] = ()
    refused: tuple[Refused, ...] = ()


def read_scripts(text: str, origin: Origin) -> ScriptReading:
    """The proposals of a reply, which share the tokens of `origin`; never raises."""
    try:
        found = parsed(text)
        given = _pieces(found.value)
    except UnreadableError as error:
        return ScriptReading(refused=(_refused(str(error), text),))
    cut = [_refused("the reply was cut off here", given.pop())] if found.is_cut and given else []
    read = list(_read(given[:MOST_PROPOSALS], origin))
    refused = [one for one in read if isinstance(one, Refused)]
    many = [_refused(f"more than {MOST_PROPOSALS} proposals", p) for p in given[MOST_PROPOSALS:]]
    proposals = [one for one in read if isinstance(one, ScriptProposal)]
    return ScriptReading(tuple(_charged(proposals, origin)), (*refused, *cut, *many))


def _pieces(found: Any) -> list[Any]:
    """The proposals as JSON; a list of them, or one alone, will do."""
    given = found if isinstance(found, list) else found.get("proposals", [found])
    given = [given] if isinstance(given, dict) else given
    if not isinstance(given, list):
        raise UnreadableError('expected {"proposals": [...]}')
    return list(given)


def _read(given: list[Any], origin: Origin) -> Iterator[ScriptProposal | Refused]:
    for number, piece in enumerate(given, 1):
        try:
            # A tile beside it would be the model's word for what nobody has looked at.
            yield replace(script_proposal_from(json.dumps(piece), origin), tile=None)
        except ValueError as error:
            yield _refused(f"proposal {number}: {error}", piece)


def _refused(reason: str, piece: Any) -> Refused:
    told = piece if isinstance(piece, str) else json.dumps(piece, separators=(",", ":"))
    return Refused(refuse("reply", "E_REPLY", reason[:_REASON_CHARS]), told[:_PIECE_CHARS])


def _charged(proposals: list[ScriptProposal], origin: Origin) -> Iterator[ScriptProposal]:
    """Each with its share of the tokens; the first pays what does not divide."""
    share, rest = divmod(origin.tokens, max(len(proposals), 1))
    for number, one in enumerate(proposals):
        yield replace(one, origin=replace(origin, tokens=share + (rest if number == 0 else 0)))
