# SPDX-License-Identifier: Apache-2.0
"""The MetaSchedule side of a work_dir: a stock JSONDatabase, written record by record."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from tvm.s_tir import Schedule, Trace
from tvm.s_tir import meta_schedule as ms

from kope_tvm.errors import WorkDirError
from kope_tvm.target import TargetSpec
from kope_tvm.workbench import TVM_ERRORS, state_of, trace_text

_RECORDS = "database_tuning_record.json"
_WORKLOADS = "database_workload.json"
_POSTPROC = "EnterPostproc"


class RecordKey(NamedTuple):
    """What identifies a record."""

    workload: str
    """Structural hash of its module, as in `Task.key`."""
    trace: str
    """Its `trace_key`."""


class Records:
    """Appends right measurements as stock tuning records."""

    def __init__(self, work_dir: Path, target: TargetSpec) -> None:
        """Raises WorkDirError where the JSON is not MetaSchedule's."""
        self._target = tvm.target.Target(dict(target.tvm_target))
        self._work_dir = work_dir
        self._workloads: dict[str, tuple[Any, Any]] = {}
        self._parsed: dict[str, _Line] = {}
        self.database = open_database(work_dir)

    def open_workload(self, mod: tvm.IRModule) -> str:
        """Take an unscheduled module as a workload that records are kept under; its key."""
        key = state_of(mod)
        if key not in self._workloads:
            args_info = ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)
            with _whole_lines(self._work_dir / _WORKLOADS):
                self._workloads[key] = self.database.commit_workload(mod), args_info
        return key

    def replays(self, workload_key: str, trace: Any, state: str) -> bool:
        """Whether a trace read back makes the same of an opened workload.

        MetaSchedule replays every record as it loads: one that fails makes all unreadable.
        """
        sch = Schedule(self._workloads[workload_key][0].mod)
        try:
            Trace.apply_json_to_schedule(json.loads(trace_text(trace)), sch)
        except TVM_ERRORS:
            return False
        return state_of(sch.mod) == state

    def commit(self, workload_key: str, trace: Any, run_secs: Sequence[float]) -> None:
        """Append one record of an opened workload; in the file when it returns.

        Raises OSError, and leaves the file as it was, where the disk is full.
        """
        workload, args_info = self._workloads[workload_key]
        secs = [float(value) for value in run_secs]
        record = ms.database.TuningRecord(trace, workload, secs, self._target, args_info)
        with _whole_lines(self._work_dir / _RECORDS, must_grow=True):
            self.database.commit_tuning_record(record)

    def times(self) -> dict[RecordKey, tuple[float, ...]]:
        """The run times on record."""
        return {line.key: line.run_secs for line in self._lines()}

    def settle(self, times: Mapping[RecordKey, tuple[float, ...]]) -> None:
        """Replace the times of records, all or none."""
        if not times:
            return
        lines = [line.with_times(times.get(line.key)) for line in self._lines()]
        fresh = self._work_dir / f".{_RECORDS}.settling"
        fresh.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        fresh.replace(self._work_dir / _RECORDS)

    def _lines(self) -> list[_Line]:
        texts = _texts(self._work_dir / _WORKLOADS)
        workload_keys = [f"{int(json.loads(text)[0]):016x}" for text in texts]
        texts, known = _texts(self._work_dir / _RECORDS), self._parsed
        # Every task's finals read all records of a run: what stands there unchanged is known.
        self._parsed = {text: known.get(text) or _line(text, workload_keys) for text in texts}
        return [self._parsed[text] for text in texts]


@dataclass(frozen=True)
class _Line:
    """One record as it lies in the file: `[workload, [trace, run_secs, target, args_info]]`."""

    text: str
    key: RecordKey
    run_secs: tuple[float, ...]

    def with_times(self, run_secs: tuple[float, ...] | None) -> str:
        if run_secs is None:
            return self.text
        number, (trace, _, *others) = json.loads(self.text)
        return json.dumps([number, [trace, list(run_secs), *others]], separators=(",", ":"))


def _line(text: str, workload_keys: Sequence[str]) -> _Line:
    number, (trace, run_secs, *_) = json.loads(text)
    secs = tuple(float(value) for value in run_secs or ())
    return _Line(text, RecordKey(workload_keys[number], _key_of(trace)), secs)


def trace_key(trace: str) -> str:
    """What identifies a trace as JSON: its instructions and decisions up to the postprocessing.

    The same for a proposal and for the record of it, which spell numbers and embedded JSON apart.
    """
    return _key_of(json.loads(trace))


def _key_of(trace: Sequence[Any]) -> str:
    instructions, decisions = trace
    kinds = [instruction[0] for instruction in instructions]
    stop = kinds.index(_POSTPROC) if _POSTPROC in kinds else len(kinds)
    plain = _plain([instructions[:stop], [one for one in decisions if one[0] < stop]])
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return "".join(value.split())
    return float(value) if isinstance(value, (bool, int)) else value


def _texts(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@contextmanager
def _whole_lines(path: Path, *, must_grow: bool = False) -> Iterator[None]:
    """Append whole lines or nothing: TVM writes without looking whether the disk took it."""
    before = _size(path)
    yield
    size = _size(path)
    if size == before and not must_grow:
        return
    with path.open("r+b") as file:
        file.seek(max(size - 1, 0))
        if size > before and file.read(1) == b"\n":
            return
        file.truncate(before)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


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
        data = path.read_bytes() if path.exists() else b""
        whole = data.rfind(b"\n") + 1
        if whole == len(data):
            continue
        if _is_json(data[whole:]):
            with path.open("ab") as file:
                file.write(b"\n")
            continue
        with path.with_suffix(".torn").open("ab") as torn:
            torn.write(data[whole:] + b"\n")
        os.truncate(path, whole)
        notices.append(f"{path.name}: a half-written last line was moved to {path.stem}.torn")
    return notices


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
