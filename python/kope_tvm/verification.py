# SPDX-License-Identifier: Apache-2.0
"""Checks what a MetaSchedule work_dir holds, stock's or kope's: MetaSchedule compares no output."""

from __future__ import annotations

import base64
import json
import logging
import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import tvm
from tvm.s_tir import Schedule, Trace
from tvm.target import codegen

from kope_tvm.boards import met_board
from kope_tvm.errors import WorkDirError
from kope_tvm.host import detect
from kope_tvm.intrinsics import intrinsics_for
from kope_tvm.machine import board_for, spec_of_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.outcome import Measurement
from kope_tvm.target import TargetSpec
from kope_tvm.workbench import TVM_ERRORS, first_line, state_of
from kope_tvm.written import Written
from kope_tvm.wrong_intrinsics import wrong_intrinsic

_WORKLOADS = "database_workload.json"
_RECORDS = "database_tuning_record.json"
_FAILED_SECS = 1e9
"""MetaSchedule writes 1e10 s for a run that failed."""
_CONFIG = MeasureConfig(min_repeat_ms=5.0, check_secs=60.0)
_LENGTH_BYTES = 8
"""TVM writes a module's length before its JSON."""
_UNRUNNABLE = "SIGILL"

_LOG = logging.getLogger("kope_tvm")


@dataclass(frozen=True)
class RecordCheck:
    """One record and what became of it."""

    number: int
    """Its line in the database, from 1."""
    function: str
    workload: str
    """Structural hash, as in `Task.key`."""
    target: str
    verdict: str
    """`right`; `wrong`; `broken`: it no longer replays, builds or ends; `unchecked`: this machine
    cannot tell, or it is on record as failed.
    """
    code: str = ""
    reason: str = ""
    error: float = 0.0
    """The largest, over the allowed one."""
    secs: float = 0.0
    """On record."""


@dataclass(frozen=True)
class Verification:
    """What a work_dir holds."""

    work_dir: str
    records: tuple[RecordCheck, ...]
    notices: tuple[str, ...] = ()
    """What the checks could not tell."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or broken."""
        return not any(each.verdict in ("wrong", "broken") for each in self.records)

    def count(self, verdict: str) -> int:
        """Records of one verdict."""
        return sum(each.verdict == verdict for each in self.records)


def verify_work_dir(work_dir: Path, say: Callable[[str], None]) -> Verification:
    """Replay every record on its workload, build it and check it on every case.

    A rewrite's records are checked against the function that they stand for. Raises WorkDirError
    where there is no database or it is damaged.
    """
    database = _Database(work_dir)
    found: dict[int, RecordCheck] = {}
    notices: list[str] = []
    for target, records in database.by_target().items():
        checks = _checked_on(target, records, notices)
        for check in checks:
            found[check.number] = check
            say(f"{len(found)}/{database.num_records} {check.function}: {check.verdict}")
    return Verification(
        str(work_dir), tuple(found[number] for number in sorted(found)), tuple(notices)
    )


@dataclass(frozen=True)
class _Record:
    """One line of a database, read."""

    number: int
    workload: str
    mod: tvm.IRModule
    original: tvm.IRModule
    """What the workload stands for: itself, but for a rewrite."""
    trace: Any
    secs: float
    target: Mapping[str, object]

    @property
    def function(self) -> str:
        """The name of what is called."""
        names = [var.name_hint for var, _ in self.mod.functions_items()]
        return "main" if "main" in names else next(iter(names), "?")

    def check(self, verdict: str, code: str, reason: str, error: float = 0.0) -> RecordCheck:
        kind = " ".join(str(self.target[key]) for key in ("kind", "mcpu") if self.target.get(key))
        return RecordCheck(
            self.number, self.function, self.workload, kind, verdict, code, reason, error, self.secs
        )

    def replayed(self) -> tvm.IRModule:
        """The module that the record makes of its workload; raises what TVM raises."""
        sch = Schedule(self.mod)
        Trace.apply_json_to_schedule(self.trace, sch)
        return sch.mod


class _Database:
    """The two files of a work_dir, read line by line: a record that fails hides no other."""

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        lines = self._lines(_RECORDS)
        try:
            mods = [workload_module(line) for line in self._lines(_WORKLOADS)]
            keys = [state_of(mod) for mod in mods]
            originals = dict(zip(keys, mods, strict=True)) | self._originals(keys, mods)
            self._records = [
                _record(number, line, keys, mods, originals)
                for number, line in enumerate(lines, start=1)
            ]
        except (ValueError, KeyError, TypeError, IndexError, *TVM_ERRORS) as error:
            raise WorkDirError(
                f"work_dir {str(work_dir)!r}: cannot read its database ({first_line(error)}); "
                "expected the two files that MetaSchedule of this TVM writes"
            ) from error

    @property
    def num_records(self) -> int:
        return len(self._records)

    def by_target(self) -> dict[str, list[_Record]]:
        """The records of each target, as JSON."""
        found: dict[str, list[_Record]] = {}
        for record in self._records:
            found.setdefault(json.dumps(record.target, sort_keys=True), []).append(record)
        return found

    def _lines(self, name: str) -> list[Any]:
        path = self._work_dir / name
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise WorkDirError(
                f"{path}: {error.strerror}; expected the work_dir of a MetaSchedule or kope tuning"
            ) from error
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise WorkDirError(f"{path}: not JSON line by line ({error})") from error

    def _originals(
        self, keys: Sequence[str], mods: Sequence[tvm.IRModule]
    ) -> dict[str, tvm.IRModule]:
        """The original of every rewrite that is among the workloads."""
        written = Written(self._work_dir)
        return {
            rewrite: mod
            for key, mod in zip(keys, mods, strict=True)
            for rewrite in written.rewrites(key)
        }


def workload_module(line: Sequence[str]) -> tvm.IRModule:
    """The module of a line of `database_workload.json`."""
    _, encoded = line
    return tvm.ir.load_json(base64.b64decode(encoded)[_LENGTH_BYTES:].decode())


def _record(
    number: int,
    line: Sequence[Any],
    keys: Sequence[str],
    mods: Sequence[tvm.IRModule],
    originals: Mapping[str, tvm.IRModule],
) -> _Record:
    workload, (trace, run_secs, target, *_) = line
    secs = median(float(each) for each in run_secs) if run_secs else math.inf
    key = keys[workload]
    return _Record(number, key, mods[workload], originals[key], trace, secs, dict(target or {}))


def _checked_on(
    target: str, records: Sequence[_Record], notices: list[str]
) -> Iterator[RecordCheck]:
    """The checks of one target's records."""
    options: dict[str, object] = json.loads(target)
    spec, why = _machine(options)
    failed = [record for record in records if record.secs >= _FAILED_SECS]
    yield from (record.check("unchecked", "", "on record as failed") for record in failed)
    left = [record for record in records if record.secs < _FAILED_SECS]
    named = {one.number: wrong_intrinsic(json.dumps(one.trace)) for one in left}
    for record in [one for one in left if named[one.number]]:
        reason = f"tensorized with TVM's {named[record.number]}, which ignores where its tile lies"
        yield record.check("wrong", "E_INTRINSIC", reason)
    left = [record for record in left if not named[record.number]]
    if why:
        yield from (record.check("unchecked", "E_DEVICE", why) for record in left)
        return
    with (
        met_board(spec, notices.append) as met,
        Pool(spec, _CONFIG, _LOG, met) as pool,
        intrinsics_for(str(options["kind"])),
    ):
        _register_intrinsics(tvm.target.Target(dict(spec.tvm_target)))
        for number in sorted({record.workload for record in left}):
            same = [record for record in left if record.workload == number]
            yield from _against_their_function(pool, same)
            notice = pool.notice(same[0].original)
            if notice:
                notices.append(f"{same[0].function} ({number}): {notice}")


def _machine(options: Mapping[str, object]) -> tuple[TargetSpec, str]:
    """The machine that checks a target's records, and why there is none; empty where there is."""
    here = TargetSpec("work_dir", {"num-cores": detect().num_cores, **options}, facts=detect())
    kind = str(options.get("kind", ""))
    if kind != "llvm":
        return here, f"target kind {kind!r} does not run here"
    triple = str(options.get("mtriple", ""))
    if not triple or triple.partition("-")[0] in (platform.machine(), "native"):
        return here, ""
    board = board_for(options)
    if board is None:
        return here, f"no known target has a board for target triple {triple!r}"
    found = spec_of_target(tvm.target.Target(dict(options)))
    vlen_bits = max(found.facts.vlen_bits, board.facts.vlen_bits)
    facts = replace(board.facts, vlen_bits=vlen_bits, num_cores=found.facts.num_cores)
    return replace(board, tvm_target=found.tvm_target, facts=facts), ""


def _register_intrinsics(target: tvm.target.Target) -> None:
    """Those of RISC-V vectors, which TVM makes for a target: old records name them."""
    if codegen.target_has_features("v", target):
        riscv_cpu = import_module("tvm.s_tir.tensor_intrin.riscv_cpu")
        riscv_cpu.register_riscv_intrinsics(target)


def _against_their_function(pool: Pool, records: Sequence[_Record]) -> Iterator[RecordCheck]:
    mods: list[tvm.IRModule] = []
    replayed: list[_Record] = []
    for record in records:
        try:
            mods.append(record.replayed())
            replayed.append(record)
        except TVM_ERRORS as error:
            yield record.check("broken", "E_REPLAY", first_line(error))
    original = records[0].original
    for index, measurement in pool.measure(mods, reference=original, prove_secs=math.inf):
        yield _judged(replayed[index], measurement)


def _judged(record: _Record, measurement: Measurement) -> RecordCheck:
    code, reason = measurement.code, measurement.error
    if measurement.ok:
        return record.check("right", "", "", measurement.max_error)
    if code == "E_DEVICE" or _UNRUNNABLE in reason:
        return record.check("unchecked", code, reason)
    is_wrong = measurement.stage == "check"
    verdict = "wrong" if is_wrong else "broken"
    return record.check(verdict, code, reason, measurement.max_error)
