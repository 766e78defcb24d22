# SPDX-License-Identifier: Apache-2.0
"""Takes what others learned into the memory: kope's journals, stock databases, exports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule, Trace

from kope_tvm.errors import UsageError, WorkDirError
from kope_tvm.finals import FAILED_SECS
from kope_tvm.intrinsics import intrinsics_for
from kope_tvm.machine import spec_of_target
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.portable import load_jsonl, read_jsonl
from kope_tvm.memory.rows import content_key
from kope_tvm.memory.salvage import experiences_in
from kope_tvm.memory.work_dirs import JOURNAL
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.verification import workload_module
from kope_tvm.workbench import TVM_ERRORS, first_line, make_task, state_of

_WORKLOADS = "database_workload.json"
_RECORDS = "database_tuning_record.json"
_POSTPROC = "EnterPostproc"
_PROPOSER = "metaschedule"
_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, *TVM_ERRORS)


@dataclass(frozen=True)
class Imported:
    """What a work_dir held."""

    work_dir: str
    source: str
    """`journal`, which kope wrote, `database`, which MetaSchedule did, or `export`."""
    experiences: int
    new: int
    failures: int
    """Of the experiences: what was refused, failed, or no longer replays."""


def import_work_dir(work_dir: Path, memory: Memory, target: TargetSpec | None = None) -> Imported:
    """Take in what a work_dir knows; once more changes nothing.

    `target` is the machine of a stock database; None finds it by what each record says. Raises
    WorkDirError where the folder holds neither a journal nor a readable database.
    """
    if (work_dir / JOURNAL).is_file():
        return _journal(work_dir, memory)
    database = _Database(work_dir, target)
    at = memory.store.first_at(database.run_id)
    found = [replace(one, at=database.at if at is None else at) for one in database.experiences()]
    for spec in database.machines:
        memory.note_machine(spec)
    return _kept("database", work_dir, memory, found)


def import_export(path: Path, memory: Memory) -> Imported:
    """Take in a file that `kope memory export` wrote; raises UsageError where it is none."""
    try:
        with path.open(encoding="utf-8") as file:
            found = list(read_jsonl(file))
            file.seek(0)
            num_new = load_jsonl(memory.store, file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read ({error}); expected an exported memory"
        ) from error
    memory.learn_lessons()
    return Imported(str(path), "export", len(found), num_new, sum(bool(one.code) for one in found))


def _journal(work_dir: Path, memory: Memory) -> Imported:
    return _kept("journal", work_dir, memory, [*experiences_in(work_dir / JOURNAL)])


def _kept(source: str, work_dir: Path, memory: Memory, found: Sequence[Experience]) -> Imported:
    memory.note_work_dir(work_dir)
    num_new = memory.record_many(found)
    num_failed = sum(bool(one.code) for one in found)
    return Imported(str(work_dir), source, len(found), num_new, num_failed)


class _Database:
    """The two files of a stock work_dir, read line by line: a bad trace hides no other."""

    def __init__(self, work_dir: Path, target: TargetSpec | None) -> None:
        self._work_dir = work_dir
        self._target = target
        self._records = self._lines(_RECORDS)
        self._workloads = self._lines(_WORKLOADS)
        self._specs: dict[str, TargetSpec] = {}
        self._tasks: dict[tuple[int, str], Task] = {}

    @cached_property
    def run_id(self) -> str:
        """The same for a copy of the database, and after it grew."""
        first = [lines[0] for lines in (self._workloads, self._records) if lines]
        return f"import-{content_key(first)[:12]}"

    @property
    def at(self) -> float:
        """Records carry no time: that of the last one."""
        return float(int((self._work_dir / _RECORDS).stat().st_mtime))

    @property
    def machines(self) -> Sequence[TargetSpec]:
        """Those that the experiences were made on."""
        return tuple(self._specs.values())

    def experiences(self) -> Iterator[Experience]:
        """Every record as an edge from the untuned function; raises WorkDirError."""
        for number, line in enumerate(self._records, start=1):
            try:
                yield self._experience(number, line)
            except _UNREADABLE as error:
                raise WorkDirError(
                    f"{self._work_dir / _RECORDS}: line {number} cannot be read "
                    f"({first_line(error)}); expected what MetaSchedule of this TVM writes"
                ) from error

    def _experience(self, number: int, line: Sequence[Any]) -> Experience:
        workload, (trace, run_secs, target, *_) = line
        task = self._task(workload, target or {})
        state, code, reason = _replayed(task, trace)
        secs = tuple(float(each) for each in run_secs or ())
        if not code and (not secs or max(secs) >= FAILED_SECS or not all(map(math.isfinite, secs))):
            code, reason = "E_FAILED", "MetaSchedule could not build or run it"
        stripped = _without_postproc(trace)
        return Experience(
            task_key=task.key,
            task_name=task.name,
            features=task.features,
            machine_key=task.target.key,
            state=state,
            parent="",
            lane="decisions",
            space="sketch" if stripped is not None else "",
            proposal=json.dumps(trace if stripped is None else stripped),
            proposer=_PROPOSER,
            change="",
            round_no=0,
            order=number,
            accepted=True,
            code=code,
            reason=reason,
            suspicious=False,
            run_secs=() if code else secs,
            baseline_secs=0.0,
            noise=0.0,
            tokens=0,
            cites=(),
            seed=0,
            toolchain="",
            simulated=False,
            run_id=self.run_id,
            at=0.0,
        )

    def _task(self, workload: int, target: Mapping[str, object]) -> Task:
        spec = self._spec(json.dumps(target, sort_keys=True))
        key = (workload, spec.key)
        if key not in self._tasks:
            mod = workload_module(self._workloads[workload])
            self._tasks[key] = make_task("main", mod, spec)
        return self._tasks[key]

    def _spec(self, target: str) -> TargetSpec:
        if self._target is not None:
            return self._specs.setdefault("", self._target)
        if target not in self._specs:
            self._specs[target] = spec_of_target(tvm.target.Target(json.loads(target)))
        return self._specs[target]

    def _lines(self, name: str) -> list[Any]:
        path = self._work_dir / name
        try:
            text = path.read_text(encoding="utf-8")
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except OSError as error:
            raise WorkDirError(
                f"{path}: {error.strerror}; expected the work_dir of a MetaSchedule or kope tuning"
            ) from error
        except ValueError as error:
            raise WorkDirError(f"{path}: not JSON line by line ({error})") from error


def _replayed(task: Task, trace: Any) -> tuple[str, str, str]:
    """The program that a trace makes, or what names it, a code and a reason."""
    target = tvm.target.Target(dict(task.target.tvm_target))
    sch = Schedule(tvm.ir.load_json(task.mod_json))
    try:
        with target, intrinsics_for(str(target.kind.name)):
            Trace.apply_json_to_schedule(trace, sch)
    except TVM_ERRORS as error:
        return content_key(trace)[:16], "E_REPLAY", first_line(error)
    return state_of(sch.mod), "", ""


def _without_postproc(trace: Sequence[Any]) -> list[Any] | None:
    """The decisions of a sketch, before what was made of them for one size; None for no sketch."""
    instructions, decisions = trace
    kinds = [instruction[0] for instruction in instructions]
    if _POSTPROC not in kinds:
        return None
    stop = kinds.index(_POSTPROC)
    return [instructions[:stop], [one for one in decisions if one[0] < stop]]
