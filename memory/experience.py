# SPDX-License-Identifier: Apache-2.0
"""One outcome: an edge of the experience graph, and what recall hands back of it."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.task import Features


@dataclass(frozen=True)
class Experience:
    """A decision edge: from a program version to the next, on one machine."""

    task_key: str
    task_name: str
    features: Features
    machine_key: str
    """`TargetSpec.key`: the core class."""
    state: str
    """Structural hash of the scheduled module; the key of a refused proposal's text where there
    is none.
    """
    parent: str
    """The state it was derived from; empty for the untuned function."""
    lane: str
    """`decisions`, `plan` or `rewrite`."""
    space: str
    """`rule:<name>`, `sketch`, or empty."""
    proposal: str
    """The trace, steps or script, as JSON or text: enough to replay."""
    proposer: str
    change: str
    round_no: int
    order: int
    """Position in its round."""
    accepted: bool
    code: str
    """Reason code of the refusal or failure; empty where it was measured."""
    reason: str
    suspicious: bool
    run_secs: tuple[float, ...]
    baseline_secs: float
    """The untuned function's time in the same run; 0 where unknown."""
    noise: float
    tokens: int
    cites: tuple[str, ...]
    seed: int
    toolchain: str
    """e.g. `tvm 0.27.0.post1, ffi 0.1.14.post1, llvm 22.1.8`."""
    simulated: bool
    run_id: str
    """One tuning run; with round_no and order it says what happened when."""
    at: float
    """Seconds since the epoch."""
    repairs: str = ""
    """State of the failed experience of the same run that this one mends; empty for none."""
    repair_turn: int = 0
    signature: str = ""
    """Of the failure that was mended."""
    source: str = ""
    """`rows.experience_key` of the experience of another task or machine that this one was carried
    over from; empty for none.
    """
    relative: str = ""
    """The decision relative to the hardware, as JSON text; empty where unknown."""


@dataclass(frozen=True)
class Factors:
    """Why an experience was recalled; see `memory.recall` for how they make up its score."""

    task_similarity: float
    """0..1; 1 is the same function."""
    machine_similarity: float
    """0..1; 1 is the same core class."""
    q_valid: float
    """Learned: the share of outcomes that were right where it was in the context."""
    q_fast: float
    """Learned: how near they came to the best known time, 1 is there."""
    freshness: float
    """By toolchain and age."""
    tokens: int
    """What showing its proposal would cost, estimated."""
    score: float


@dataclass(frozen=True)
class Recalled:
    """An experience that may help with another task, and why it was chosen."""

    experience: Experience
    similarity: float
    """0..1 over task and machine; 1 is the same function on the same core class."""
    value: float
    """Best known time of its task on its machine over its own: 1 is the best, 0 a failure."""
    why: str
    factors: Factors | None = None
