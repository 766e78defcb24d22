# SPDX-License-Identifier: Apache-2.0
"""One run of `kope mlir script`: who proposes, what is said on the way, and what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.chat.budget import Limits
from kope_tvm.chat.dialogue import Dialogue, Spent
from kope_tvm.chat.open import open_dialogue
from kope_tvm.config import load_endpoint
from kope_tvm.memory.location import default_path
from kope_tvm.memory.memory import Memory
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.script_asking import Asked
from kope_tvm.mlir.script_proposers import Remembered, ScriptProposer, ScriptTrial, Search
from kope_tvm.mlir.script_tuning import ScriptTuning
from kope_tvm.target import TargetSpec

Say = Callable[[str], None]


@dataclass(frozen=True)
class Words:
    """Who proposes, what a model may cost, and where it is put on record."""

    proposer: str
    limits: Limits
    exchanges: Path | None
    """What `replay` answers from."""
    folder: Path


@dataclass(frozen=True)
class Best:
    """The fastest right script."""

    script: str
    secs: float
    proposer: str


@dataclass(frozen=True)
class ScriptReport:
    """What a run found."""

    best: Best | None
    default_secs: float
    trials: int
    spent: Spent
    notices: tuple[str, ...]

    @property
    def secs(self) -> float:
        return self.best.secs if self.best else float("inf")

    @property
    def ratio(self) -> float:
        """The default lowering's time over the script's."""
        return self.default_secs / self.secs

    @property
    def told(self) -> dict[str, object]:
        """For JSON, without the script."""
        return {
            "secs": self.secs,
            "default_secs": self.default_secs,
            "ratio": self.ratio,
            "by": self.best.proposer if self.best else "",
            "trials": self.trials,
            "spent": self.spent,
            "notices": self.notices,
        }


def tune_script(
    file: Path, target: TargetSpec, num_trials: int, words: Words, memory: Memory, say: Say
) -> ScriptReport:
    """Tune a file's only function; `say` hears a line a trial.

    Raises UsageError for words that cannot be, ModelError where the file is not one function.
    """
    with ExitStack() as opened:
        dialogue = _dialogue(opened, words, say)
        function = Function.of(file, target)
        asked = Asked(function, dialogue) if dialogue is not None else None
        tuning = _tuning(function, asked, memory)
        for trial in tuning.tune(num_trials):
            if asked is not None:
                asked.follow(trial)
            say(_line(trial))
        report = _report(tuning, asked, dialogue)
    for notice in report.notices:
        say(notice)
    return report


def _tuning(function: Function, asked: Asked | None, memory: Memory) -> ScriptTuning:
    """What is known is asked first, and what is guessed last."""
    with_model: list[ScriptProposer] = [asked] if asked is not None else []
    proposers = [Remembered(function, memory), *with_model, Search(function)]
    return ScriptTuning(function, proposers, memory, uuid.uuid4().hex)


def _dialogue(opened: ExitStack, words: Words, say: Say) -> Dialogue | None:
    """The line to a model, closed with the rest; None where there is none."""
    home = default_path().parent
    dialogue = open_dialogue(
        words.proposer,
        load_endpoint(home),
        words.limits,
        words.exchanges,
        words.folder,
        home,
        say,
    )
    return opened.enter_context(closing(dialogue)) if dialogue is not None else None


def _report(tuning: ScriptTuning, asked: Asked | None, dialogue: Dialogue | None) -> ScriptReport:
    notices = (*asked.notices, *dialogue.notices) if asked and dialogue else ()
    spent = dialogue.spent if dialogue is not None else Spent()
    function, best = tuning.function, tuning.best
    found = None
    if best is not None:
        proposal = best.proposal
        found = Best(function.script(proposal), best.secs, proposal.origin.proposer)
    default_secs = function.proof.baseline_secs
    return ScriptReport(found, default_secs, len(tuning.trials), spent, notices)


def _line(trial: ScriptTrial) -> str:
    origin = trial.proposal.origin
    return f"{origin.change}: {trial.code or f'{trial.secs * 1e3:.3g} ms'}"
