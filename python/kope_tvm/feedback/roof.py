# SPDX-License-Identifier: Apache-2.0
"""How fast this machine has been seen to be, and the least time of a task that follows from it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kope_tvm.feedback.rates import Rates, least_work
from kope_tvm.feedback.roof_rates import measured_rates
from kope_tvm.measure.pool import Pool
from kope_tvm.target import TargetSpec
from kope_tvm.task import Features
from kope_tvm.toolchain import toolchain

_VERSION = 1
_UNSETTLED_SECS = 3600.0


@dataclass(frozen=True)
class Roof:
    """The best rates seen on a machine: no right function is faster than they allow."""

    machine_key: str
    toolchain: str
    one_core: Rates = field(default_factory=Rates)
    all_cores: Rates = field(default_factory=Rates)
    launch_secs: float = 0.0
    """Of waking all cores."""
    is_settled: bool = True
    """Measured on a quiet machine; otherwise unknown rates were left out, and it is measured again
    an hour later.
    """

    def secs(self, features: Features) -> float:
        """A lower bound of a function's time, caches warm; 0 where nothing is known.

        Two ways to beat it: an algorithm with fewer multiplications (Winograd, Strassen), and the
        taps of a padded image that fall on the padding.
        """
        work = least_work(features)
        shared = self.all_cores.secs(work)
        return min(shared + self.launch_secs, max(shared, self.one_core.secs(work)))

    def headroom(self, features: Features, secs: float) -> float:
        """How many times the bound a time is; 0 where the bound is unknown."""
        bound = self.secs(features)
        return secs / bound if bound else 0.0

    def raised(self, features: Features, secs: float) -> Roof:
        """The roof after a right function was measured at `secs`: the best ever seen."""
        factor = self.secs(features) / secs
        if factor <= 1.0:
            return self
        work = least_work(features)
        return replace(
            self,
            one_core=self.one_core.raised(work, factor),
            all_cores=self.all_cores.raised(work, factor),
            launch_secs=self.launch_secs / factor,
        )

    def or_higher(self, other: Roof) -> Roof:
        """What either of two measurements of one machine allows; this one is the newer."""
        return replace(
            self,
            one_core=self.one_core.or_faster(other.one_core),
            all_cores=self.all_cores.or_faster(other.all_cores),
            launch_secs=min(self.launch_secs, other.launch_secs),
            is_settled=self.is_settled,
        )


def measured_roof(pool: Pool, spec: TargetSpec, cache: Path) -> Roof:
    """The roof of the pool's machine, from the folder `cache` where it was measured before.

    Measured anew where the file is damaged, another compiler's, or an hour old and not settled. On
    a machine too busy to measure a rate, a faster one that bounds it stands in. Nothing is known of
    a machine that is no CPU.
    """
    known = known_roof(spec, cache)
    return known if known is not None else _measured(pool, spec, cache, None)


def known_roof(spec: TargetSpec, cache: Path) -> Roof | None:
    """The roof that was measured before, from the folder `cache`; None where it is to be."""
    return _loaded(cache / f"roof-{_key(spec)}.json", spec)


def measured_again(roof: Roof, pool: Pool, spec: TargetSpec, cache: Path) -> Roof:
    """What either the roof or a new measurement allows: it may have been made on a busy machine."""
    return _measured(pool, spec, cache, roof)


def _measured(pool: Pool, spec: TargetSpec, cache: Path, before: Roof | None) -> Roof:
    if spec.tvm_target.get("kind") != "llvm" or not pool.is_wall_time:
        return Roof(spec.key, toolchain())
    rates = measured_rates(pool, spec)
    roof = Roof(
        spec.key,
        toolchain(),
        rates.one_core,
        rates.all_cores,
        rates.launch_secs,
        rates.is_settled,
    )
    if before is not None:
        roof = roof.or_higher(before)
    if roof.all_cores.flops_per_sec:
        kept_roof(roof, spec, cache)
    return roof


def kept_roof(roof: Roof, spec: TargetSpec, cache: Path) -> None:
    """Keep a roof for the next run; a folder that cannot be written costs only that."""
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        path = cache / f"roof-{_key(spec)}.json"
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(
            json.dumps({"version": _VERSION, "at": time.time(), **asdict(roof)}), encoding="utf-8"
        )
        fresh.replace(path)


def _key(spec: TargetSpec) -> str:
    return hashlib.sha256(f"{spec.key} {toolchain()}".encode()).hexdigest()[:16]


def _loaded(path: Path, spec: TargetSpec) -> Roof | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        is_old = not data["is_settled"] and time.time() - data["at"] > _UNSETTLED_SECS
        if data["version"] != _VERSION or is_old:
            return None
        found = Roof(
            str(data["machine_key"]),
            str(data["toolchain"]),
            _rates(data["one_core"]),
            _rates(data["all_cores"]),
            max(0.0, float(data["launch_secs"])),
            bool(data["is_settled"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    is_same = (found.machine_key, found.toolchain) == (spec.key, toolchain())
    return found if is_same and found.all_cores.flops_per_sec else None


def _rates(data: Mapping[str, Any]) -> Rates:
    flops = {str(dtype): float(rate) for dtype, rate in data["flops_per_sec"].items()}
    bandwidths = tuple((int(least), float(rate)) for least, rate in data["bandwidths"])
    if not all(rate > 0 for rate in (*flops.values(), *(rate for _, rate in bandwidths))):
        raise ValueError("a rate is not positive")
    return Rates(flops, bandwidths)
