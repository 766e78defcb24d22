# SPDX-License-Identifier: Apache-2.0
"""A published policy as a proposer: a model names mutators in a tree search over traces.

After the Reasoning Compiler (arXiv 2506.01374): the model answers with names from MetaSchedule's
mutators, never with a value or a place; it is shown the function, the trace and the score of a
node, its parent and its grandparent, and the scores are the cost model's, not times; it is asked
from the second level of the tree on; a name that is not there is dropped, and where none is left
one mutation is made at random. Written from that description; what it proposes is checked here as
everybody else's is.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kope_tvm.chat.dialogue import Dialogue, Request
from kope_tvm.chat.outcomes import outcome_of
from kope_tvm.context import Context
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions, Origin, Proposal, proposal_text
from kope_tvm.seat import Seat
from kope_tvm.sketch_space import Evolution
from kope_tvm.workbench import trace_text

_MOST_CHILDREN = 2
_ASKED_FROM_DEPTH = 2
_EXPLORATION = math.sqrt(2)
_ATTEMPTS = 8
"""Expansions a wanted proposal, before a round goes without it."""
_BATCH = 16
_REPLY_TOKENS = 200


@dataclass
class Node:
    """A trace of the tree."""

    trace: Any
    script: str
    score: float
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    is_dead: bool = False
    """Whether mutating it has led nowhere."""

    @property
    def depth(self) -> int:
        return self.parent.depth + 1 if self.parent else 0

    def bound(self, visits: int) -> float:
        """Upper confidence bound of what is below it."""
        if not self.visits:
            return math.inf
        return self.total / self.visits + _EXPLORATION * math.sqrt(math.log(visits) / self.visits)


class MutatorNames:
    """Tree search over the traces of MetaSchedule's design spaces."""

    def __init__(self, seat: Seat, name: str) -> None:
        """`name` is the proposer's: whether a live model or a record answers."""
        self._seat, self._name, self._bench = seat, name, seat.bench
        self._random = random.Random(seat.bench.seed)
        self._asked: dict[str, Request] = {}
        self._num_asked = 0
        self._num_learned = 0

    def propose(self, context: Context) -> Sequence[Proposal]:
        """Expansions of the tree, one after another."""
        self._learn(context)
        found: list[Proposal] = []
        for _ in range(_ATTEMPTS * context.num_wanted):
            if len(found) == context.num_wanted or not self._roots:
                break
            found += self._expanded(self._selected(), context)
        return found

    @cached_property
    def _roots(self) -> list[Node]:
        spaces = self._bench.sketch_schedules
        return [Node(sch.trace, str(sch.mod.script()), 0.0) for sch in spaces]

    @cached_property
    def _evolution(self) -> Evolution:
        return Evolution(self._bench.tune_context, self._bench.sketch_schedules, _BATCH)

    @cached_property
    def _mutators(self) -> dict[str, Any]:
        probabilities = self._bench.tune_context.space_generator.mutator_probs
        return {type(mutator).__name__: mutator for mutator in probabilities}

    def _selected(self) -> Node:
        """Down from a root by confidence bounds, to a node that has room for a child."""
        at = self._random.choice(self._roots)
        while len(at.children) >= _MOST_CHILDREN or at.is_dead:
            if not at.children:
                return self._random.choice(self._roots)
            visits = max(at.visits, 1)
            at = max(at.children, key=lambda child: child.bound(visits))
        return at

    def _expanded(self, node: Node, context: Context) -> Iterator[Proposal]:
        names, request = self._named(node, context)
        trace = node.trace
        for name in names:
            trace = self._mutators[name].apply(trace) or trace
        text = trace_text(trace, remove_postproc=True)
        origin = Origin(self._name, change=f"mutate {', '.join(names)}")
        proposal = Decisions("sketch", text, origin)
        candidate = self._bench.apply(proposal)
        if isinstance(candidate, Verdict) or candidate.state in context.tried:
            node.is_dead = bool(node.children)
            return
        (score,) = self._evolution.scores([candidate.sch])
        self._grow(node, Node(trace, str(candidate.sch.mod.script()), score, node))
        if request is not None:
            self._asked[proposal_text(proposal)] = request
        yield proposal

    def _grow(self, node: Node, child: Node) -> None:
        node.children.append(child)
        at: Node | None = child
        while at is not None:
            at.visits += 1
            at.total += child.score
            at = at.parent

    def _named(self, node: Node, context: Context) -> tuple[list[str], Request | None]:
        """The model's choice, or one at random; and what was asked."""
        dialogue = self._seat.dialogue
        if node.depth >= _ASKED_FROM_DEPTH and dialogue is not None and dialogue.is_open:
            self._num_asked += 1
            request = self._request(node, context)
            names = [name for name in self._answer(request, dialogue) if name in self._mutators]
            if names:
                return names, request
        return [self._random.choice(list(self._mutators))], None

    def _request(self, node: Node, context: Context) -> Request:
        names = list(self._mutators)
        return Request(
            context.task.key,
            "propose",
            f"mutators-{self._num_asked}",
            "You choose how MetaSchedule mutates a schedule. Answer with JSON: "
            '{"mutators": [names in order]}.',
            "\n".join(
                [*_shown(node), f"Mutators: {', '.join(names)}", "Higher scores are better."]
            ),
            {
                "type": "object",
                "properties": {"mutators": {"type": "array", "items": {"enum": names}}},
                "required": ["mutators"],
            },
            max_output_tokens=_REPLY_TOKENS,
        )

    def _answer(self, request: Request, dialogue: Dialogue) -> list[str]:
        future = dialogue.ask(request)
        if not future.done():
            with self._seat.waiting:
                wait([future], timeout=dialogue.patience_secs)
        try:
            said = json.loads(future.result().text)["mutators"] if future.done() else []
            return [str(name) for name in said]
        except (ValueError, KeyError, TypeError):
            return []

    def _learn(self, context: Context) -> None:
        """The cost model learns from the measured; the model that is asked never sees a time."""
        fresh, schedules, measured = context.trials[self._num_learned :], [], []
        incumbent_secs = math.inf
        for number, trial in enumerate(context.trials):
            request = self._asked.get(proposal_text(trial.proposal))
            if number >= self._num_learned and request and self._seat.dialogue:
                self._seat.dialogue.note(request, [outcome_of(trial, incumbent_secs)])
            incumbent_secs = min(incumbent_secs, trial.secs)
        self._num_learned = len(context.trials)
        for trial in fresh:
            candidate = self._bench.apply(trial.proposal)
            if trial.measurement is not None and not isinstance(candidate, Verdict):
                schedules.append(candidate.sch)
                measured.append(trial.measurement)
        if schedules:
            self._evolution.learn(schedules, measured)


def _shown(node: Node) -> Iterator[str]:
    """The node, its parent and its grandparent, whole."""
    at: Node | None = node
    for word in ("Current", "Parent", "Grandparent"):
        if at is not None:
            yield f"{word} function, predicted score {at.score:.4f}:\n{at.script}\n{at.trace}"
            at = at.parent
