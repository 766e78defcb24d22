# SPDX-License-Identifier: Apache-2.0
"""What a proposal does whatever it is called: the same idea under another label is the same."""

from __future__ import annotations

from collections.abc import Iterable

from kope_tvm.proposal import Decisions, Plan, Proposal, Step

_PLUMBING = frozenset({"split", "fuse", "reorder", "merge", "add_unit_loop", "reindex"})
"""Steps that make room for others and win nothing by themselves."""


def mechanism_of(proposal: Proposal) -> str:
    """e.g. `rule:matmul_x86`, `plan: cache_write matmul, vectorize matmul`, `rewrite`."""
    if isinstance(proposal, Decisions):
        return proposal.space or "as written"
    if isinstance(proposal, Plan):
        return f"plan: {steps_mechanism(proposal.steps)}"
    then = proposal.then
    return f"rewrite, {mechanism_of(then)}" if then else "rewrite"


def steps_mechanism(steps: Iterable[Step]) -> str:
    """The primitives and the blocks they are for, without order and numbers."""
    steps = list(steps)
    telling = [step for step in steps if step.primitive not in _PLUMBING] or steps
    blocks: dict[str, list[str]] = {}
    for step in telling:
        blocks.setdefault(step.primitive, []).append(str(step.args.get("block", "")))
    return ", ".join(
        f"{primitive} {'+'.join(sorted(set(names)))}".strip()
        for primitive, names in sorted(blocks.items())
    )
