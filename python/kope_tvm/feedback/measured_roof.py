# SPDX-License-Identifier: Apache-2.0
"""Measures the roof of this machine with the pool that measures candidates, once a compiler."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.target import codegen

from kope_tvm.feedback import roof_kernels as kernels
from kope_tvm.feedback.roof import Rates, Roof
from kope_tvm.measure.pool import Pool
from kope_tvm.target import TargetSpec
from kope_tvm.toolchain import toolchain

_VERSION = 1
_MAX_PASSES = 6
"""Each times a kernel by one call of less than a millisecond: a neighbour on the machine spoils
longer ones more often, and a roof is the best ever seen."""
_SETTLED = 1.03
"""The two best passes agree: neighbours slow a kernel down by a different amount each time."""
_FLOPS = 8e7
_BYTES = 8e7
_LAUNCHES = 500
"""Work of one core in one call."""
_MAX_FOOTPRINT_BYTES = 128 << 20

_DOTS = (
    ("avx512vnni", "llvm.x86.avx512.vpdpbusd.512", 16),
    ("avxvnni", "llvm.x86.avx512.vpdpbusd.256", 8),
)
"""(LLVM's feature, intrinsic, int32 lanes) of dot products of int8; widest first."""
_LLVM_MAJOR = 22
"""Older ones give the intrinsics other operand types."""
_NATIVE_FP16 = ("avx512fp16", "zvfh", "fullfp16")
_NATIVE_BF16 = ("avx512bf16", "avxneconvert", "amx-bf16", "zvfbfwma", "bf16")


@dataclass(frozen=True)
class _Kernel:
    """A module to measure, and what one call of it does."""

    name: str
    mod: tvm.IRModule
    amount: float


def measured_roof(pool: Pool, spec: TargetSpec, cache: Path) -> Roof:
    """The roof of the pool's machine, from the folder `cache` where it was measured before.

    Measured anew where the file is damaged or another compiler's. Of a machine that is no CPU, or
    whose kernels all fail, nothing is known, and nothing is kept.
    """
    path = cache / f"roof-{_key(spec)}.json"
    known = _loaded(path, spec)
    if known is not None:
        return known
    if spec.tvm_target.get("kind") != "llvm":
        return Roof(spec.key, toolchain())
    roof = _roof(spec, _best(pool, tuple(_kernels(spec))))
    if roof.all_cores.flops_per_sec:
        kept_roof(roof, spec, cache)
    return roof


def kept_roof(roof: Roof, spec: TargetSpec, cache: Path) -> None:
    """Keep a roof for the next run; a folder that cannot be written costs only that."""
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        path = cache / f"roof-{_key(spec)}.json"
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"version": _VERSION, **asdict(roof)}), encoding="utf-8")
        fresh.replace(path)


def _key(spec: TargetSpec) -> str:
    return hashlib.sha256(f"{spec.key} {toolchain()}".encode()).hexdigest()[:16]


def _loaded(path: Path, spec: TargetSpec) -> Roof | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            return None
        found = Roof(
            str(data["machine_key"]), str(data["toolchain"]),
            _rates(data["one_core"]), _rates(data["all_cores"]), float(data["launch_secs"]),
        )  # fmt: skip
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


def _best(pool: Pool, found: tuple[_Kernel, ...]) -> dict[str, float]:
    """The highest rate of each kernel that ran; those are run again that have not settled."""
    rates: dict[str, list[float]] = {kernel.name: [] for kernel in found}
    for _ in range(_MAX_PASSES):
        unsettled = [kernel for kernel in found if not _is_settled(rates[kernel.name])]
        # No call is quick enough for this limit, so that each is timed by one call.
        measured = pool.measure([kernel.mod for kernel in unsettled], hopeless_secs=1e-9)
        for index, measurement in measured:
            kernel = unsettled[index]
            rates[kernel.name].append(kernel.amount / measurement.secs)
    return {name: max(seen) for name, seen in rates.items() if any(seen)}


def _is_settled(rates: list[float]) -> bool:
    """A kernel that failed twice has settled too, at nothing."""
    best = sorted(rates)[-2:]
    return len(best) > 1 and best[1] <= best[0] * _SETTLED


@dataclass(frozen=True)
class _Level:
    """A footprint that lies past one cache, so that the next level answers."""

    name: str
    num_cores: int
    num_bytes: int
    moves: tuple[str, ...] = ("reads",)


def _levels(spec: TargetSpec) -> list[_Level]:
    """Caches of a core are measured on one; all cores together are no faster than so many ones."""
    facts = spec.facts
    cores, l1, l2 = facts.num_cores, facts.l1_bytes or 32 << 10, facts.l2_bytes or 1 << 20
    shared = 2 * l2 * cores
    found = [
        _Level("l1", 1, l1 // 2, ("triads",)),
        _Level("l2", 1, 2 * l1),
        _Level("l3", cores, shared, ("reads", "triads")),
    ]
    memory = min(2 * facts.l3_bytes, _MAX_FOOTPRINT_BYTES)
    return [*found, _Level("memory", cores, memory)] if memory > shared else found


def _kernels(spec: TargetSpec) -> Iterator[_Kernel]:
    features = _features(spec)
    lanes, cores = max(spec.facts.vlen_bits, 128) // 32, spec.facts.num_cores
    rounds = int(_FLOPS) // (2 * kernels.CHAINS * lanes)
    for num in dict.fromkeys((1, cores)):
        mod = kernels.multiply_adds(num, rounds, lanes, "float32")
        yield _Kernel(f"float32 {num}", mod, num * _FLOPS)
        if features.intersection(_NATIVE_FP16):
            mod = kernels.multiply_adds(num, rounds, 2 * lanes, "float16")
            yield _Kernel(f"float16 {num}", mod, 2 * num * _FLOPS)
        for intrinsic, lanes_of_dot in _dots(features) if num == cores else ():
            mod = kernels.dot_products(num, rounds, lanes_of_dot, intrinsic)
            amount = num * _FLOPS * kernels.DOT_BYTES * lanes_of_dot / lanes
            yield _Kernel(f"int8 {num}", mod, amount)
    for level in _levels(spec):
        yield from _moves(level, lanes // 2)
    yield _Kernel("launches", kernels.launches(cores, _LAUNCHES), _LAUNCHES)


def _moves(level: _Level, lanes: int) -> Iterator[_Kernel]:
    """The first cache moves most with two reads a write, memory with reads alone."""
    num, vector_bytes = level.num_cores, lanes * kernels.WORD_BYTES
    for name, vectors, make in (
        ("reads", kernels.CHAINS, kernels.reads),
        ("triads", 3, kernels.triads),
    ):
        if name in level.moves:
            step_bytes = num * vectors * vector_bytes
            steps = max(1, level.num_bytes // step_bytes)
            rounds = max(1, int(num * _BYTES) // (steps * step_bytes))
            mod = make(num, rounds, lanes, steps)
            yield _Kernel(f"{level.name} {name}", mod, rounds * steps * step_bytes)


def _roof(spec: TargetSpec, rates: Mapping[str, float]) -> Roof:
    cores = spec.facts.num_cores
    seen = [
        (level, max(rates.get(f"{level.name} {name}", 0.0) for name in level.moves))
        for level in _levels(spec)
    ]
    own = [(level.num_bytes, rate) for level, rate in seen if level.num_cores == 1 or cores == 1]
    shared = [
        (level.num_bytes * cores // level.num_cores, rate * cores / level.num_cores)
        for level, rate in seen
    ]
    launches = rates.get("launches", 0.0)
    return Roof(
        spec.key,
        toolchain(),
        Rates(_flops(spec, rates, 1), _falling(own)),
        Rates(_flops(spec, rates, cores), _falling(shared)),
        1 / launches if launches else 0.0,
    )


def _flops(spec: TargetSpec, rates: Mapping[str, float], num_cores: int) -> dict[str, float]:
    """By dtype; what is not native is done in float32."""
    names = ("float32", "float16", "int8")
    found = {name: rates[each] for name in names if (each := f"{name} {num_cores}") in rates}
    all_float, all_int = (
        rates.get(f"{name} {spec.facts.num_cores}") for name in ("float32", "int8")
    )
    if "float32" in found and all_float and all_int:
        found["int8"] = all_int * found["float32"] / all_float
    features = _features(spec)
    for name, native in (("float16", _NATIVE_FP16), ("bfloat16", _NATIVE_BF16)):
        if "float32" in found and not features.intersection(native):
            found[name] = found["float32"]
    return found


def _falling(seen: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Rates by footprint, from 0 up; a smaller footprint is no slower than a larger one."""
    rates = [max(rate for _, rate in seen[index:]) for index in range(len(seen))]
    starts = [0, *(num_bytes for num_bytes, _ in seen[1:])]
    return tuple((least, rate) for least, rate in zip(starts, rates, strict=True) if rate)


def _dots(features: frozenset[str]) -> list[tuple[str, int]]:
    """The widest dot product that the machine has, if any."""
    if codegen.llvm_version_major() < _LLVM_MAJOR:
        return []
    return [(intrinsic, lanes) for name, intrinsic, lanes in _DOTS if name in features][:1]


def _features(spec: TargetSpec) -> frozenset[str]:
    target = tvm.target.Target(dict(spec.tvm_target))
    return frozenset(str(each) for each in codegen.llvm_get_cpu_features(target))
