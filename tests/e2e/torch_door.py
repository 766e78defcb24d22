# SPDX-License-Identifier: Apache-2.0
"""What test_torch.py runs where torch is: one answer a line, as JSON."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kope_tvm.errors import UsageError
from kope_tvm.torch import Optimized, optimize
from kope_tvm.torch.contest import fault


class Branches(nn.Module):
    """Names its outputs, and has an operator that TVM has not."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8 * 8 * 8, 16)

    def forward(self, x: Any) -> Any:
        features = self.stem(x).flatten(1)
        scores = self.head(features).softmax(-1)
        return {"scores": scores, "spectrum": torch.linalg.svdvals(scores)}


def say(**answers: Any) -> None:
    sys.stdout.write(json.dumps(answers) + "\n")


def rows(memory: Path) -> int:
    with sqlite3.connect(memory) as database:
        return int(database.execute("SELECT count(*) FROM decision").fetchone()[0])


def tuned(folder: Path, module: nn.Module, example: tuple[Any, ...]) -> Optimized:
    memory = str(folder / "memory.sqlite")
    return optimize(module, example, work_dir=folder / "work", memory=memory, trials=2)


def branches(folder: Path) -> None:
    torch.manual_seed(0)
    module, x = Branches().eval(), torch.randn(4, 3, 8, 8)
    made = tuned(folder, module, (x,))
    once = rows(folder / "memory.sqlite")
    tuned(folder, module, (x,))
    twice = rows(folder / "memory.sqlite")
    other = torch.randn(4, 8, 8, 3).permute(0, 3, 1, 2)
    gaps = {
        name: float((made(other)[name] - module(other)[name]).detach().abs().max())
        for name in ("scores", "spectrum")
    }
    parts = [[list(part.operators), part.by, part.reason] for part in made.parts]
    say(parts=parts, gaps=gaps, once=once, twice=twice)


def faults() -> None:
    theirs, x = nn.Softmax(-1), torch.randn(8, 32)

    def writes(given: Any) -> Any:
        return given.mul_(2).softmax(-1)

    wrong = {
        "zeros": lambda given: torch.zeros_like(given),
        "writes": writes,
        "narrow": lambda given: given.softmax(-1).half(),
        "short": lambda given: given.softmax(-1)[:4],
        "rough": lambda given: given.bfloat16().float().softmax(-1),
        "right": lambda given: given.softmax(-1),
    }
    say(**{name: fault(theirs, call, (x,), ()) for name, call in wrong.items()})


def refusal() -> None:
    try:
        optimize(nn.Identity(), (torch.zeros(2), 3))
    except UsageError as error:
        say(refused=str(error))


if __name__ == "__main__":
    refusal()
    branches(Path(sys.argv[1]))
    faults()
