# SPDX-License-Identifier: Apache-2.0
"""The short door: tune a model, an IRModule or an operator, resume it, and remember."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kope_tvm import registry
from kope_tvm.boards import met_board
from kope_tvm.chat.dialogue import Dialogue
from kope_tvm.chat.open import Limits, open_dialogue
from kope_tvm.config import load_endpoint
from kope_tvm.errors import UsageError
from kope_tvm.ledger import Ledger
from kope_tvm.machine import load_target
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool
from kope_tvm.memory.location import default_path
from kope_tvm.memory.memory import Memory
from kope_tvm.model import Model, extract_tasks, load_model, refused_functions
from kope_tvm.progress import Progress, SilentProgress
from kope_tvm.report import TuneReport
from kope_tvm.round import Run
from kope_tvm.seam import Proposer
from kope_tvm.seat import Seat
from kope_tvm.seeded import open_seeded
from kope_tvm.session import Means, Session, Trials
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.toolchain import toolchain
from kope_tvm.versions import check_versions
from kope_tvm.workbench import make_task

if TYPE_CHECKING:
    from tvm import IRModule

_LOG = logging.getLogger("kope_tvm")

_WITHOUT_MODEL = ("experience", "rules", "algebra", "sketch")
"""Who proposes where there is no LLM: what was measured is asked before what is guessed."""


def tune(
    mod_or_onnx_path: str | Path | IRModule | Model,
    target: str | TargetSpec,
    work_dir: str | Path,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 16,
    proposer: str = "auto",
    memory: str | Memory | None = None,
    seed: int | None = None,
    dims: Mapping[str, int] | None = None,
    config: MeasureConfig | None = None,
    progress: Progress | None = None,
    max_tokens: int | None = None,
    max_usd: float | None = None,
    max_calls: int | None = None,
    exchanges: str | Path | None = None,
    rewind: int = 0,
    seats: Mapping[str, Callable[[Seat], Proposer]] | None = None,
) -> TuneReport:
    """Tune every function of a model for a target; the same call again resumes.

    `memory` is a SQLAlchemy URL or a path, or an open memory, which is closed; None is the user's
    own. `seats` are proposers of your own in place of those that `proposer` stands for. So many
    trials as `rewind` says, the last ones, undo single decisions of the best. `max_tokens` to
    `exchanges` are for a language model: what it may cost in all, and for proposer `replay` the
    stored exchanges. Raises UsageError for a wrong call before anything is written, KopeError where
    a device or a disk fails; what was measured before is kept.
    """
    started = time.perf_counter()
    check_versions()
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    names = ("rewind", *proposer_names(proposer)) if rewind else proposer_names(proposer)
    run = Run(uuid.uuid4().hex[:12], _seed(seed), toolchain())
    said: list[str] = []
    limits = Limits(max_tokens, max_usd, max_calls)
    with ExitStack() as opened:
        dialogue = _dialogue(opened, proposer, limits, exchanges, Path(work_dir), said)
        met = opened.enter_context(met_board(spec, said.append))
        if met is not None and met.mark:
            run = replace(run, simulated=True)
        pool = opened.enter_context(Pool(spec, config or MeasureConfig(), _LOG, met))
        pool.warm_up()
        tasks, refused = _tasks(load_model(mod_or_onnx_path, dims=dims or {}), spec)
        remembered = opened.enter_context(_opened(memory))
        remembered.note_machine(spec)
        ledger = opened.enter_context(closing(Ledger(Path(work_dir), spec, remembered)))
        ledger.notices += [*said, *refused]
        means = Means(
            run, seats or registered(names), ledger, remembered, pool, _home(), dialogue, rewind
        )
        per_task = max_trials_per_task or max_trials_global
        trials = Trials(max_trials_global, per_task, num_trials_per_iter)
        return Session(tasks, means).tune(trials, progress or SilentProgress(), started)


def registered(names: Sequence[str]) -> dict[str, Callable[[Seat], Proposer]]:
    """The proposers of these names, made when they are seated."""
    return {name: registry.load("proposers", name) for name in names}


def _opened(memory: str | Memory | None) -> Memory:
    return memory if isinstance(memory, Memory) else open_seeded(memory)


def _home() -> Path:
    return default_path().parent


def _dialogue(
    opened: ExitStack,
    proposer: str,
    limits: Limits,
    exchanges: str | Path | None,
    work_dir: Path,
    said: list[str],
) -> Dialogue | None:
    """The line to a model, closed with the rest; None where there is none."""
    words = Path(exchanges) if exchanges is not None else None
    dialogue = open_dialogue(
        proposer, load_endpoint(_home()), limits, words, work_dir, _home(), said.append
    )
    return opened.enter_context(closing(dialogue)) if dialogue is not None else None


def _seed(seed: int | None) -> int:
    """TVM takes positive seeds only."""
    return random.randrange(1, 2**31) if seed is None else max(1, seed)


def _tasks(model: Model, spec: TargetSpec) -> tuple[list[Task], list[str]]:
    """The functions to tune, and a notice for each of the others.

    Raises UsageError where there are none.
    """
    found = extract_tasks(model, spec)
    notices = [f"{name}: {reason}" for name, reason in map(astuple, refused_functions(model, spec))]
    if not found:
        why = "; ".join(notices) or "it calls no functions of its own"
        raise UsageError(f"{model.name}: nothing to tune: {why}")
    return [make_task(name, mod, spec, weight) for name, mod, weight in found], notices


def proposer_names(proposer: str) -> tuple[str, ...]:
    """The proposers that an option of `--proposer` stands for.

    `sketch`, `rules` and `algebra` are themselves alone; a model and a stranger have the others
    beside them.
    Raises UsageError for a name that is not registered.
    """
    if proposer == "auto":
        return ("chat", *_WITHOUT_MODEL)
    if proposer == "experience":
        return _WITHOUT_MODEL
    known = registry.names("proposers")
    if proposer not in known:
        raise UsageError(
            f"unknown proposer {proposer!r}; known: auto, {', '.join(known)}; "
            "'auto' and 'experience' need no model"
        )
    return (proposer,) if proposer in _WITHOUT_MODEL else (proposer, *_WITHOUT_MODEL)
