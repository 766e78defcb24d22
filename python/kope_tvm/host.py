# SPDX-License-Identifier: Apache-2.0
"""What this machine is, as its kernel tells it: instruction set, usable cores, caches.

Every function takes the root of the file system, so that another machine's files can stand in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.target import Facts

ROOT = Path("/")
_CPUS = Path("sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MASKABLE = re.compile(r"avx(?!10)|amx|fma$|f16c$")
"""LLVM features whose instructions a hypervisor may have switched off."""


@dataclass(frozen=True)
class Isa:
    """The vector unit of a core."""

    name: str = ""
    vlen_bits: int = 0
    vector_registers: int = 0


def detect(root: Path = ROOT, affinity: Collection[int] | None = None) -> Facts:
    """The facts of this machine; 0 or "" where the kernel does not say."""
    cpus = sorted(affinity if affinity is not None else usable_cpus())
    isa = isa_of(cpu_flags(root))
    l1, l2, l3 = (cache_bytes(root, cpus[0], level) for level in (1, 2, 3))
    return Facts(
        isa=isa.name,
        vlen_bits=isa.vlen_bits,
        vector_registers=isa.vector_registers,
        num_cores=usable_cores(root, cpus),
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
        clock_hz=clock_hz(root, cpus[0]),
    )


def usable_cpus() -> frozenset[int]:
    """The logical CPUs that this process may be put on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def usable_cores(root: Path, cpus: Collection[int]) -> int:
    """Physical cores among `cpus`, no more than the control group's share of time."""
    siblings = {_text(root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    cores = len(cpus) if "" in siblings else len(siblings)
    return max(1, min([cores, *(int(quota) for quota in _quotas(root))]))


def cpu_flags(root: Path = ROOT) -> frozenset[str]:
    """The instruction set extensions of the first core, in the kernel's spelling."""
    found = re.search(
        r"^(flags|Features|isa)\s*:\s*(.*)$", _text(root / "proc/cpuinfo"), re.MULTILINE
    )
    if found is None:
        return frozenset()
    if found[1] != "isa":
        return frozenset(found[2].split())
    base, *extensions = found[2].lower().split("_")
    return frozenset({*base.removeprefix("rv64").removeprefix("rv32"), *extensions})


def isa_of(flags: Collection[str]) -> Isa:
    """The vector unit that a set of features stands for, in the kernel's or LLVM's spelling."""
    if "avx512f" in flags:
        return Isa("avx512", 512, 32)
    if "avx2" in flags:
        return Isa("avx2", 256, 16)
    if "sse2" in flags:
        return Isa("sse", 128, 16)
    if "asimd" in flags or "neon" in flags:
        return Isa("neon", 128, 32)
    if "v" in flags or "zve64d" in flags:
        lengths = (int(found[1]) for flag in flags if (found := re.fullmatch(r"zvl(\d+)b", flag)))
        return Isa("rvv", max(lengths, default=128), 32)
    return Isa()


def masked_features(llvm_features: Collection[str], flags: Collection[str]) -> tuple[str, ...]:
    """Vector features that LLVM expects of the CPU's model and the kernel does not show.

    Hypervisors hide them; code that uses them dies of an illegal instruction.
    """
    shown = {_plain(flag) for flag in flags}
    if "sse2" not in shown:
        return ()
    return tuple(
        sorted(
            name for name in llvm_features if _MASKABLE.match(name) and _plain(name) not in shown
        )
    )


def cache_bytes(root: Path, cpu: int, level: int) -> int:
    """The size of the data or unified cache of a level; 0 where unknown."""
    for index in sorted((root / _CPUS / f"cpu{cpu}/cache").glob("index*")):
        kind = _text(index / "type")
        if _text(index / "level") == str(level) and kind != "Instruction":
            return _bytes(_text(index / "size"))
    return 0


def _quotas(root: Path) -> Iterator[float]:
    """CPUs' worth of time that each control group above this process allows (versions 2 and 1)."""
    base = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = base / "cpu" if controllers else base
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            yield from _quota(folder)
            if folder == top:
                break


def _quota(folder: Path) -> Iterator[float]:
    limit, _, period = _text(folder / "cpu.max").partition(" ")
    if not period:
        limit, period = (_text(folder / f"cpu.cfs_{part}_us") for part in ("quota", "period"))
    if limit.isdigit() and period.isdigit() and int(period):
        yield int(limit) / int(period)


def clock_hz(root: Path, cpu: int) -> float:
    """The highest clock of a core; 0 where unknown."""
    khz = _text(root / _CPUS / f"cpu{cpu}/cpufreq/cpuinfo_max_freq")
    return float(khz) * 1e3 if khz.isdigit() else 0.0


def _bytes(size: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", size)
    return int(found[1]) * _UNITS.get(found[2], 1) if found else 0


def _plain(feature: str) -> str:
    return feature.replace("_", "").replace("-", "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
