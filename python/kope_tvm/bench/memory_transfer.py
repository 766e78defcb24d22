# SPDX-License-Identifier: Apache-2.0
"""What a memory is worth to an operator that it has never seen: leave-one-operator-out.

Every operator of the quick suite, and each at one other shape, is tuned cold, with an empty memory
of its own. Then each operator of the suite is tuned again with a memory merged from all those runs
but its own; its other shape stays in. Nobody asks a language model. The programs that were fastest
after some trials are timed in turns, those of the cold and of the warm run beside each other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kope_tvm.bench.contender import in_turns
from kope_tvm.bench.modules import best_module, settled_module
from kope_tvm.bench.statistics import geomean
from kope_tvm.bench.stem import file_stem
from kope_tvm.machine import load_target
from kope_tvm.memory.memory import Memory
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.operators import QUICK_SUITE
from kope_tvm.target import TargetSpec
from kope_tvm.tuning import tune
from kope_tvm.workbench import Workbench, make_task

OTHER_SHAPES: Mapping[str, str] = dict(
    zip(
        QUICK_SUITE,
        (
            "op:matmul:m=256,n=1024,k=256,dtype=float32",
            "op:matmul:m=64,n=1024,k=1024,dtype=float32",
            "op:batch_matmul:b=12,m=64,n=128,k=64,dtype=float32",
            "op:conv2d:n=1,ci=128,h=28,w=28,co=128,kernel=3,stride=1,pad=1,dtype=float32",
            "op:conv2d:n=1,ci=256,h=28,w=28,co=128,kernel=1,stride=1,pad=0,dtype=float32",
            "op:depthwise_conv2d:n=1,ci=64,h=56,w=56,kernel=3,stride=1,pad=1,dtype=float32",
            "op:softmax:m=256,n=2048,dtype=float32",
            "op:layernorm:m=256,n=1024,dtype=float32",
            "op:rmsnorm:m=256,n=1024,dtype=float32",
            "op:reduce_sum:m=512,n=2048,dtype=float32",
            "op:gelu:m=256,n=4096,dtype=float32",
            "op:matmul_int8:m=256,n=512,k=1024,dtype=int8",
        ),
        strict=True,
    )
)
"""Each operator of the suite at one other shape."""
NOISE = 0.03
"""A program counts as fast as another from 1 - NOISE of its speed on."""
FIRST_TRIALS = (1, 2, 4, 8, 16)
"""After so many trials the warm run is compared with all of the cold one."""
EARLY_TRIALS = 8
PROPOSER = "experience"
_BATCH = 4


@dataclass(frozen=True)
class Transfer:
    """One operator, tuned without and with what was learned on the others."""

    spec: str
    trials: int
    cold_secs: float
    """Of a call, of what the cold run ended with."""
    ratios: Mapping[int, float]
    """By trials of the warm run: its speed over that of the cold run's end, in turns."""
    edges_known: int
    """In the memory that the warm run began with."""
    cold_tune_secs: float
    warm_tune_secs: float

    @property
    def final_ratio(self) -> float:
        return self.ratios[self.trials]

    @property
    def trials_to_reach(self) -> int | None:
        """Trials after which the warm run was as fast as the whole cold one, as far as compared."""
        reached = (count for count in sorted(self.ratios) if self.ratios[count] >= 1 - NOISE)
        return next(reached, None)

    @property
    def is_early(self) -> bool:
        return self.trials_to_reach is not None and self.trials_to_reach <= EARLY_TRIALS


@dataclass(frozen=True)
class Transfers:
    """All operators, and what the issue asks of them."""

    operators: tuple[Transfer, ...]

    @property
    def early_share(self) -> float:
        """Operators that were there within 8 trials."""
        return sum(one.is_early for one in self.operators) / max(len(self.operators), 1)

    @property
    def geomean(self) -> float:
        return geomean(one.final_ratio for one in self.operators)

    @property
    def worst(self) -> float:
        return min((one.final_ratio for one in self.operators), default=1.0)


class Leaving:
    """The runs in one folder, each made once: a broken-off bench goes on where it was."""

    def __init__(
        self, folder: Path, target: str, trials: int, seed: int, say: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._target = target
        self._spec: TargetSpec = load_target(target)
        self._trials = trials
        self._seed = seed
        self._say = say

    def transfers(self, operators: Sequence[str], others: Sequence[str]) -> Transfers:
        """Leave out each of the operators in turn; `others` are what memories are made of."""
        known = tuple(dict.fromkeys((*others, *operators)))
        for operator in known:
            self._cold(operator)
        return Transfers(tuple(self._transfer(one, known) for one in operators))

    def _cold(self, operator: str) -> Path:
        folder = self._folder / "cold" / file_stem(operator)
        self._tuned(operator, folder, folder / "memory.sqlite", self._seed)
        return folder

    def _transfer(self, operator: str, known: Iterable[str]) -> Transfer:
        folder = self._folder / "warm" / file_stem(operator)
        file = folder / "transfer.json"
        if file.is_file():
            plain = json.loads(file.read_text(encoding="utf-8"))
            ratios = {int(count): ratio for count, ratio in plain.pop("ratios").items()}
            return Transfer(**plain, ratios=ratios)
        edges = self._merged(folder, [one for one in known if one != operator])
        self._tuned(operator, folder, folder / "memory.sqlite", self._seed + 1)
        found = self._compared(operator, self._cold(operator), folder, edges)
        file.write_text(json.dumps(asdict(found)), encoding="utf-8")
        return found

    def _merged(self, folder: Path, operators: Iterable[str]) -> int:
        """Make the memory of a warm run from those of cold ones; how many edges it has."""
        folder.mkdir(parents=True, exist_ok=True)
        with Memory.open(folder / "memory.sqlite") as memory:
            if not memory.stats().decisions:
                for operator in operators:
                    with Memory.open(self._cold(operator) / "memory.sqlite") as other:
                        memory.merge(other)
            return memory.stats().decisions

    def _tuned(self, operator: str, folder: Path, memory: Path, seed: int) -> None:
        done = folder / "tuned.json"
        if done.is_file():
            return
        self._say(f"{folder.parent.name} {operator}")
        began = time.perf_counter()
        tune(
            operator,
            self._spec,
            folder / "work",
            self._trials,
            num_trials_per_iter=_BATCH,
            proposer=PROPOSER,
            memory=str(memory),
            seed=seed,
        )
        done.write_text(json.dumps(time.perf_counter() - began), encoding="utf-8")

    def _compared(self, operator: str, cold: Path, warm: Path, edges: int) -> Transfer:
        ((name, mod, weight),) = extract_tasks(load_model(operator), self._spec)
        bench = Workbench(make_task(name, mod, self._spec, weight))
        first = [count for count in FIRST_TRIALS if count < self._trials]
        files = {"cold": settled_module(bench, cold / "work")}
        files |= {f"{count}": best_module(bench, warm / "work", count) for count in first}
        files[f"{self._trials}"] = settled_module(bench, warm / "work")
        turns = in_turns(files, self._target, self._spec.facts.num_cores)
        base = turns["cold"]
        ratios = {count: _speed(base, turns[f"{count}"]) for count in (*first, self._trials)}
        return Transfer(
            spec=operator,
            trials=self._trials,
            cold_secs=sorted(base)[len(base) // 2],
            ratios=ratios,
            edges_known=edges,
            cold_tune_secs=json.loads((cold / "tuned.json").read_text(encoding="utf-8")),
            warm_tune_secs=json.loads((warm / "tuned.json").read_text(encoding="utf-8")),
        )


def _speed(base: Sequence[float], secs: Sequence[float]) -> float:
    ratios = sorted(theirs / ours for theirs, ours in zip(base, secs, strict=True))
    return ratios[len(ratios) // 2]


def leave_one_out(
    folder: Path,
    operators: Sequence[str] = QUICK_SUITE,
    *,
    target: str = "host",
    trials: int = 32,
    seed: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Transfers:
    """Leave out each of the operators in turn; of a subset, memories hold that subset only."""
    others = [OTHER_SHAPES[one] for one in operators if one in OTHER_SHAPES]
    return Leaving(folder, target, trials, seed, say).transfers(operators, others)
