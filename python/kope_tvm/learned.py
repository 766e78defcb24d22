# SPDX-License-Identifier: Apache-2.0
"""What a work_dir has learned, put into a module: schedules, and functions written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import tvm_ffi
from tvm import IRModule, tirx
from tvm.target import Target

from kope_tvm.errors import WorkDirError
from kope_tvm.extraction import as_task_module
from kope_tvm.intrinsics import register_intrinsics_of
from kope_tvm.manifest import Coverage
from kope_tvm.outcome import Verdict
from kope_tvm.records import open_database, trace_key
from kope_tvm.rewrite.parse import rewritten
from kope_tvm.settled import Settled
from kope_tvm.workbench import TVM_ERRORS, state_of, trace_text
from kope_tvm.written import Written

_DATABASE_FILES = ("database_workload.json", "database_tuning_record.json")
_NONE: Mapping[str, str] = {}
_TARGET_KEYS = ("kind", "mcpu", "mattr", "arch")


@dataclass(frozen=True)
class Choice:
    """What became of one function."""

    func: tirx.PrimFunc | None
    """None where it stays as it is."""
    lane: str = ""
    """Of the proposal that made `func`."""
    state: str = ""
    """What experiences of `func` are kept under."""
    failures: tuple[str, ...] = ()
    """Why what was faster on record could not be applied."""


@dataclass(frozen=True)
class _Option:
    """A workload that computes the function, and its fastest record's time."""

    secs: float
    lane: str
    workload: Callable[[], IRModule | str]
    """The module, or why there is none."""


class _Made(NamedTuple):
    """A function that does not stay as it is, and by what; its gain, 0 where unknown."""

    name: str
    lane: str
    gain: float
    state: str


class Learned:
    """A stock database, and what a work_dir has beside it."""

    def __init__(
        self, database: Any, target: Target, written: Written, settled: Settled | None = None
    ) -> None:
        """`database` None knows nothing."""
        self._database = database
        self._target = target
        self._written = written
        self._settled = settled

    @classmethod
    def open(cls, work_dir: str | Path | None, target: Target) -> Learned:
        """Open a work_dir for reading; where it has no records, or is None, nothing is known.

        Raises WorkDirError where it is damaged or another target's.
        """
        folder = Path(work_dir or "")
        database = None
        if work_dir is not None and all((folder / name).is_file() for name in _DATABASE_FILES):
            database = open_database(folder)
            _refuse_another_target(database, target, folder)
        return cls(database, target, Written(folder), Settled(folder))

    def apply(
        self, mod: IRModule, *, untuned: Mapping[str, str] = _NONE
    ) -> tuple[IRModule, Coverage]:
        """Schedule every PrimFunc with the fastest on record; the others stay as they are.

        `untuned` names functions that stay, each with the reason.
        """
        applied = mod.clone()
        made: list[_Made] = []
        fallback: list[str] = []
        failed: list[str] = []
        for var, func in sorted(mod.functions.items(), key=lambda item: str(item[0].name_hint)):
            if not isinstance(func, tirx.PrimFunc):
                continue
            name = str(var.name_hint)
            choice = Choice(None, failures=(untuned[name],)) if name in untuned else None
            choice = choice or self.choose(func)
            failed += [f"{name}: {reason}" for reason in choice.failures]
            if choice.func is None:
                fallback.append(name)
                continue
            applied.update_func(var, choice.func)
            made.append(_Made(name, choice.lane, self._gain(func), choice.state))
        return applied, Coverage(
            hit=tuple(one.name for one in made),
            fallback=tuple(fallback),
            failed=tuple(failed),
            lanes=tuple(one.lane for one in made),
            gains=tuple(one.gain for one in made),
            states=tuple(one.state for one in made),
        )

    def _gain(self, func: tirx.PrimFunc) -> float:
        """Over the untuned function, as its finals ended; 0 where none were held."""
        found = self._settled.comparison(state_of(as_task_module(func))) if self._settled else None
        return found.gain if found and found.accepted else 0.0

    def choose(self, func: tirx.PrimFunc) -> Choice:
        """The fastest on record that can still be applied."""
        if self._database is None or "tirx.is_scheduled" in func.attrs:
            return Choice(None)
        mod = as_task_module(func)
        failures: list[str] = []
        for option in sorted(self._options(mod), key=lambda one: one.secs):
            found = self._scheduled(option)
            if isinstance(found, str):
                failures.append(found)
            elif found is not None:
                is_untuned = tvm_ffi.structural_equal(found, mod)
                tuned = None if is_untuned else _in_place_of(func, found["main"])
                return Choice(tuned, option.lane, state_of(found), tuple(failures))
        return Choice(None, failures=tuple(failures))

    def _options(self, mod: IRModule) -> Iterator[_Option]:
        task_key = state_of(mod)
        if task_key in self._secs:
            yield _Option(self._secs[task_key], self._lane(mod, task_key), lambda: mod)
        for workload_key, path in self._written.rewrites(task_key).items():
            if workload_key in self._secs:
                parsed = _Script(path, workload_key, mod).parsed
                yield _Option(self._secs[workload_key], "rewrite", parsed)

    @cached_property
    def _secs(self) -> dict[str, float]:
        """The median time of each workload's best record; which that is stock says by the mean."""
        keys: dict[Any, str] = {}
        best: dict[str, tuple[float, float]] = {}
        for record in self._database.get_all_tuning_records():
            run_secs = [float(secs) for secs in record.run_secs or ()]
            if run_secs:
                key = keys.get(record.workload) or state_of(record.workload.mod)
                keys[record.workload] = key
                found = (mean(run_secs), median(run_secs))
                best[key] = min(best.get(key, found), found)
        return {key: secs for key, (_, secs) in best.items()}

    def _lane(self, mod: IRModule, task_key: str) -> str:
        plans = self._written.plans(task_key)
        record = self._database.query_tuning_record(mod, self._target, "main") if plans else None
        is_plan = record is not None and trace_key(trace_text(record.trace)) in plans
        return "plan" if is_plan else "decisions"

    def _scheduled(self, option: _Option) -> IRModule | str | None:
        """An option's module scheduled by its best record, or why not; None without a right one.

        One by one: stock's own pass gives up on a whole model where one record does not replay.
        """
        workload = option.workload()
        if isinstance(workload, str):
            return workload
        try:
            register_intrinsics_of(str(self._target.kind.name))
            sch = self._database.query_schedule(workload, self._target, "main")
        except TVM_ERRORS as error:
            return f"its record does not replay: {str(error).strip().splitlines()[-1]}"
        return None if sch is None else sch.mod


@dataclass(frozen=True)
class _Script:
    """A function written anew, as it lies in the work_dir."""

    path: Path
    workload_key: str
    original: IRModule

    def parsed(self) -> IRModule | str:
        """The module, or why it is not the one that was measured."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return f"its rewrite {self.path.name} cannot be read: {error}"
        mod = rewritten(text, self.original)
        if isinstance(mod, Verdict):
            return f"its rewrite {self.path.name} no longer applies: {mod}"
        if state_of(mod) != self.workload_key:
            return f"its rewrite {self.path.name} is not the one that was measured"
        return mod


def _in_place_of(func: tirx.PrimFunc, tuned: tirx.PrimFunc) -> tirx.PrimFunc:
    """The tuned function under the name of the one that it replaces."""
    symbol = func.attrs.get("global_symbol")
    named = (
        tuned.with_attr("global_symbol", symbol) if symbol else tuned.without_attr("global_symbol")
    )
    return named.with_attr("tirx.is_scheduled", True)


def _refuse_another_target(database: Any, target: Target, work_dir: Path) -> None:
    wanted = _identity(target)
    for record in database.get_all_tuning_records():
        if record.target is not None and _identity(record.target) != wanted:
            raise WorkDirError(
                f"work_dir {str(work_dir)!r} holds records for {record.target}; "
                f"compiling for {target}; give the target it was tuned for or another work_dir"
            )


def _identity(target: Target) -> tuple[str, ...]:
    """What decides whether a schedule fits; the number of cores does not."""
    exported = target.export()
    machine = str(exported.get("mtriple", "")).partition("-")[0]
    return (machine, *(str(exported.get(key, "")) for key in _TARGET_KEYS))
