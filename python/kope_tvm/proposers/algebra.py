# SPDX-License-Identifier: Apache-2.0
"""Proposes the function computed by cheaper arithmetic, scheduled by the rules that know it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kope_tvm.context import Context
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions, Origin, Proposal, Rewrite, proposal_text
from kope_tvm.rewrite.arithmetic import with_cheaper_arithmetic
from kope_tvm.seat import Seat


class Algebra:
    """Rewrites that hold for real numbers; the numerics check decides for rounded ones."""

    def __init__(self, seat: Seat) -> None:
        self._bench = seat.bench
        self._said: set[str] = set()

    def propose(self, context: Context) -> Sequence[Proposal]:
        """First guesses not proposed before."""
        self._said |= {
            proposal_text(t.proposal) for t in context.trials if isinstance(t.proposal, Rewrite)
        }
        fresh = [one for one in self._rewrites() if proposal_text(one) not in self._said]
        chosen = fresh[: context.num_wanted]
        self._said |= {proposal_text(one) for one in chosen}
        return chosen

    def _rewrites(self) -> Iterator[Rewrite]:
        script = with_cheaper_arithmetic(str(self._bench.mod["main"].script()))
        bench = self._bench.rewritten(script) if script is not None else None
        if script is None or bench is None or isinstance(bench, Verdict):
            return
        origin = Origin("algebra", change="rewrite: cheaper arithmetic of rows")
        for space in bench.rule_spaces:
            yield Rewrite(script, Decisions(space.name, space.trace, origin), origin)
