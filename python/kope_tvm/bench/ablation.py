# SPDX-License-Identifier: Apache-2.0
"""A part of kope taken out or swapped, for a contender that shows what the part is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kope_tvm.briefing import Briefing
from kope_tvm.memory.memory import Memory
from kope_tvm.proposers.chat import Chat
from kope_tvm.proposers.replay import Replay
from kope_tvm.seam import Proposer
from kope_tvm.seat import Seat
from kope_tvm.tuning import proposer_names, registered

Seats = Mapping[str, Callable[[Seat], Proposer]]
_VOICES = {"chat": Chat, "replay": Replay}


def usual_seats(proposer: str) -> Seats:
    """Who sits on the panel where nothing is taken out."""
    return registered(proposer_names(proposer))


def briefed(briefing: type[Briefing]) -> Callable[[str], Seats]:
    """The usual panel, its model told what another briefing tells."""
    return lambda proposer: {**usual_seats(proposer), **voice(proposer, briefing)}


def voice(proposer: str, briefing: type[Briefing]) -> Seats:
    """The model alone, told what a briefing tells."""
    return {proposer: lambda seat: _VOICES[proposer](seat, briefing(seat))}


@dataclass(frozen=True)
class Ablation:
    """One such configuration."""

    label: str
    """What follows "kope, " in tables."""
    needs_model: bool = False
    """Whether it changes nothing where no model proposes."""
    memory: type[Memory] = Memory
    seats: Callable[[str], Seats] = usual_seats
    """From what `--proposer` says, who proposes."""
