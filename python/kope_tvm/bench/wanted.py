# SPDX-License-Identifier: Apache-2.0
"""What a person asks of `kope bench`, as every suite is told it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wanted:
    """A run; None and an empty tuple stand for the suite's own choice."""

    suite: str
    against: tuple[str, ...] | None
    parts: tuple[str, ...]
    trials: int
    target: str | None
    seed: int
    json_file: Path | None
    say: Callable[[str], None]
    """Told what is being done, beside the figures."""
    markdown_file: Path | None = None
    only: tuple[str, ...] = ()
    """Of the operators, those whose spec holds one of these."""
    shard: tuple[int, int] = (1, 1)
    """The n-th of so many parts of the operators."""
    repeats: int = 1
    """Times that every operator is tuned anew, with a seed of its own."""
    state: Path | None = None
    """Folder that a run which was stopped goes on from; None is beside the JSON file."""
    without: tuple[str, ...] = ()
    """Ablations."""
    proposer: str = "experience"
    exchanges: Path | None = None
    """Folder of stored exchanges, one file an operator."""
    turns: int = 21
    """Times that every contender is timed, one after another."""
    memory: Path | None = None
    """A memory that every tuning starts with a copy of; None is an empty one."""
