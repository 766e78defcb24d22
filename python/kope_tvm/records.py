# SPDX-License-Identifier: Apache-2.0
"""The MetaSchedule side of a work_dir: a stock JSONDatabase, written record by record."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from kope_tvm.errors import WorkDirError
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.workbench import state_of, trace_text

_RECORDS = "database_tuning_record.json"
_WORKLOADS = "database_workload.json"


class Records:
    """Appends right measurements as stock tuning records."""

    def __init__(self, work_dir: Path, target: TargetSpec) -> None:
        """Raises WorkDirError where the JSON is not MetaSchedule's."""
        self._target = tvm.target.Target(dict(target.tvm_target))
        self._work_dir = work_dir
        self._workloads: dict[str, tuple[Any, Any]] = {}
        self.database = open_database(work_dir)

    def open_workload(self, mod: tvm.IRModule, task: Task) -> None:
        """Take a task's untuned module as the workload under which its records are kept."""
        args_info = ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)
        self._workloads[task.key] = self.database.commit_workload(mod), args_info

    def commit(self, task_key: str, trace: Any, run_secs: Sequence[float]) -> None:
        """Append one record of an opened workload; on disk when it returns."""
        workload, args_info = self._workloads[task_key]
        secs = [float(value) for value in run_secs]
        record = ms.database.TuningRecord(trace, workload, secs, self._target, args_info)
        self.database.commit_tuning_record(record)

    def settle(self, times: Mapping[tuple[str, str], tuple[float, ...]]) -> None:
        """Replace the times of records, by task key and trace; the files are never without them."""
        with tempfile.TemporaryDirectory(dir=self._work_dir, prefix=".settling-") as folder:
            fresh = ms.database.JSONDatabase(work_dir=folder, allow_missing=True)
            for record in self.database.get_all_tuning_records():
                where = state_of(record.workload.mod), trace_text(record.trace)
                _copy(record, fresh, times.get(where, tuple(map(float, record.run_secs or ()))))
            for name in (_RECORDS, _WORKLOADS):
                Path(folder, name).replace(self._work_dir / name)

    def states(self, task: Task) -> frozenset[str]:
        """Structural hashes of the modules that are on record for a task."""
        mod = tvm.ir.load_json(task.mod_json)
        records = self.database.get_all_tuning_records()
        mine = [one for one in records if state_of(one.workload.mod) == task.key]
        return frozenset(_replayed(mod, record) for record in mine)


def _copy(record: Any, into: Any, run_secs: Sequence[float]) -> None:
    workload = into.commit_workload(record.workload.mod)
    into.commit_tuning_record(
        ms.database.TuningRecord(
            record.trace, workload, list(run_secs), record.target, record.args_info
        )
    )


def open_database(work_dir: Path) -> Any:
    """The stock database of a work_dir, made where there is none.

    Raises WorkDirError where a file is damaged.
    """
    try:
        return ms.database.JSONDatabase(work_dir=str(work_dir), allow_missing=True)
    except (tvm.error.InternalError, RuntimeError, ValueError) as error:
        raise WorkDirError(
            f"work_dir {str(work_dir)!r}: MetaSchedule cannot read its database "
            f"({str(error).strip().splitlines()[-1][:160]}); "
            f"move {_WORKLOADS} and {_RECORDS} away, or give another --work-dir"
        ) from error


def cut_torn_line(work_dir: Path) -> list[str]:
    """Move a last line that a killed writer left half written out of MetaSchedule's files."""
    notices: list[str] = []
    for name in (_WORKLOADS, _RECORDS):
        path = work_dir / name
        if not path.exists():
            continue
        *whole, last = path.read_text(encoding="utf-8").split("\n")
        if last and not _is_json(last):
            with path.with_suffix(".torn").open("a", encoding="utf-8") as torn:
                torn.write(last + "\n")
            path.write_text("\n".join([*whole, ""]), encoding="utf-8")
            notices.append(f"{path.name}: a half-written last line was moved to {path.stem}.torn")
    return notices


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _replayed(mod: tvm.IRModule, record: Any) -> str:
    sch = Schedule(mod, debug_mask="none", error_render_level="none")
    record.trace.apply_to_schedule(sch, remove_postproc=False)
    return state_of(sch.mod)
