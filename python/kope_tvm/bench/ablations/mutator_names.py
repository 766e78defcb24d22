# SPDX-License-Identifier: Apache-2.0
"""The published policy of naming mutators, in place of the whole panel."""

from __future__ import annotations

from kope_tvm.bench.ablation import Ablation, Seats
from kope_tvm.bench.mutator_names import MutatorNames


def _seats(proposer: str) -> Seats:
    return {proposer: lambda seat: MutatorNames(seat, proposer)}


ABLATION = Ablation("mutator names", needs_model=True, seats=_seats)
