# SPDX-License-Identifier: Apache-2.0
"""Proposes the function in a form that computes it cheaper, scheduled by the rules that know it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kope_tvm.context import Context
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions, Origin, Proposal, Rewrite, proposal_text
from kope_tvm.rewrite.forms import forms
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
        for form in forms(str(self._bench.mod["main"].script()), self._bench.task.target):
            bench = self._bench.rewritten(form.script)
            origin = Origin("algebra", change=form.change)
            for space in () if isinstance(bench, Verdict) else bench.rule_spaces:
                yield Rewrite(form.script, Decisions(space.name, space.trace, origin), origin)
