# SPDX-License-Identifier: Apache-2.0
"""What a board is, as its kernel and its core tell it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope_tvm import host
from kope_tvm.device.board import Info, Session, open_session
from kope_tvm.device.place import Place
from kope_tvm.target import Facts, TargetSpec

_LIMIT_SECS = 60.0
_CPU = "/sys/devices/system/cpu/cpu"
_FILES = (
    "/proc/cpuinfo",
    f"{_CPU}*/cache/index*/*",
    f"{_CPU}*/cpufreq/*",
    f"{_CPU}*/topology/thread_siblings_list",
    "/sys/class/thermal/thermal_zone*/temp",
)
NO_TIME = "emulated: wall time means nothing"


@dataclass(frozen=True)
class Probe:
    """One core class of a board."""

    info: Info
    facts: Facts
    """As found; 0 or "" where nobody says."""
    extensions: tuple[str, ...]
    governors: tuple[str, ...]
    temperatures_celsius: tuple[float, ...]
    differences: tuple[str, ...]
    """Where it is not what its target says."""
    notice: str = ""


def probe(place: Place, spec: TargetSpec) -> Probe:
    """Ask a free board of the place; KopeError where none answers.

    Of an emulated one nothing is told but its vector length: its files are this machine's.
    """
    session = open_session(place, _LIMIT_SECS)
    files = {} if session.info.emulated else _files(session)
    facts = _facts(files, session.info)
    return Probe(
        info=session.info,
        facts=facts,
        extensions=_extensions(files),
        governors=_said(files, r"cpufreq/scaling_governor$"),
        temperatures_celsius=tuple(
            int(text) / 1000 for text in _said(files, r"thermal_zone\d+/temp$") if text.isdigit()
        ),
        differences=_differences(spec.facts, facts),
        notice=NO_TIME if session.info.emulated else "",
    )


def _files(session: Session) -> dict[str, str]:
    found: dict[str, str] = {}
    for pattern in _FILES:
        found.update(session.ask("kope.server.files", pattern))
    return found


def _facts(files: Mapping[str, str], info: Info) -> Facts:
    isa = "rvv" if info.vlen_bits else ""
    if not files:
        return Facts(isa, info.vlen_bits, 32 if isa else 0, len(info.cores))
    with tempfile.TemporaryDirectory(prefix="kope-") as folder:
        root = Path(folder)
        for path, text in files.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        first = info.cores[0] if info.cores else 0
        l1, l2, l3 = (host.cache_bytes(root, first, level) for level in (1, 2, 3))
        clock_hz = host.clock_hz(root, first)
    return Facts(isa, info.vlen_bits, 32 if isa else 0, len(info.cores), l1, l2, l3, clock_hz)


def _extensions(files: Mapping[str, str]) -> tuple[str, ...]:
    found = re.search(r"^isa\s*:\s*(\S+)", files.get("/proc/cpuinfo", ""), re.MULTILINE)
    return tuple(found[1].split("_")) if found else ()


def _said(files: Mapping[str, str], pattern: str) -> tuple[str, ...]:
    return tuple(sorted({text.strip() for path, text in files.items() if re.search(pattern, path)}))


def _differences(said: Facts, found: Facts) -> tuple[str, ...]:
    names = ("vlen_bits", "num_cores", "l1_bytes", "l2_bytes", "clock_hz")
    rows = ((name, getattr(said, name), getattr(found, name)) for name in names)
    return tuple(
        f"{name}: the target says {want:g}, the board {have:g}"
        for name, want, have in rows
        if want and have and want != have
    )
