# SPDX-License-Identifier: Apache-2.0
"""What a proposer may say: values for a design space, schedule steps, or a whole function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Origin:
    """Who proposed, from what, and why."""

    proposer: str
    parent: str = ""
    """State (candidate key) it was derived from; empty where it starts from the untuned
    function.
    """
    change: str = ""
    """The difference to the parent in words, e.g. `v5 [1, 1, 64, 8] -> [1, 2, 32, 8]`."""
    cites: tuple[str, ...] = ()
    """Experiences it was conditioned on."""
    tokens: int = 0


@dataclass(frozen=True)
class Decisions:
    """Values for the sampling instructions of a design space: legal by construction."""

    space: str
    """`rule:<name>` or `sketch`."""
    trace: str = field(repr=False)
    """A trace as JSON (`Trace.as_json`), decisions included; it replays on the untuned function."""
    origin: Origin = field(default_factory=lambda: Origin("unknown"))


@dataclass(frozen=True)
class Step:
    """One schedule primitive, addressed by block and loop names."""

    primitive: str
    args: Mapping[str, object]


@dataclass(frozen=True)
class Plan:
    """Schedule primitives applied in order to the untuned function."""

    steps: tuple[Step, ...]
    origin: Origin = field(default_factory=lambda: Origin("unknown"))


@dataclass(frozen=True)
class Rewrite:
    """A whole function in TVMScript with the task's signature."""

    script: str = field(repr=False)
    origin: Origin = field(default_factory=lambda: Origin("unknown"))


Proposal = Decisions | Plan | Rewrite
