# SPDX-License-Identifier: Apache-2.0
"""Measures the rates of this machine with the pool that measures candidates."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm.target import codegen

from kope_tvm.feedback import roof_kernels as kernels
from kope_tvm.feedback.rates import Rates
from kope_tvm.measure.pool import Pool
from kope_tvm.target import TargetSpec

_MAX_SECS = 10.0
"""For all passes. Each times a kernel by one call of a millisecond: a neighbour on the machine
spoils longer ones more often, and a roof is the best ever seen."""
_LEAST_PASSES = 3
_SETTLED, _LAUNCH_SETTLED = 1.04, 1.2
"""The two best passes agree: neighbours slow a kernel down by a different amount each time, and
threads never wake up in quite the same time."""
_BANDWIDTH_MARGIN = 1.05
"""Neighbours share caches and memory, so that what was seen is less than there is."""
_LEAST_SHARE = 0.5
"""Of what so many single cores would do; clocks fall by less when all cores work."""
_MAX_FALL = 16.0
"""From one level to the next; a rate that falls by more was measured among others' work."""
_FLOPS = 8e7
_BYTES = 6e7
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


_Bandwidths = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class _Kernel:
    """A module to measure, and what one call of it does."""

    name: str
    mod: tvm.IRModule
    amount: float
    settled: float = _SETTLED

    def is_settled(self, rates: Sequence[float]) -> bool:
        """One that keeps failing has settled too, at nothing."""
        best = sorted(rates)[-2:]
        return len(rates) >= _LEAST_PASSES and best[1] <= best[0] * self.settled


@dataclass(frozen=True)
class MeasuredRates:
    """What was seen of one core, of all, and of waking them."""

    one_core: Rates
    all_cores: Rates
    launch_secs: float
    is_settled: bool
    """No rate is missing for want of a quiet moment."""


def measured_rates(pool: Pool, spec: TargetSpec) -> MeasuredRates:
    """The best rates of the pool's machine, in a second or two, or 10 and more on a busy machine.

    Where a rate did not settle, a faster one that bounds it stands in.
    """
    found = tuple(_kernels(spec))
    seen = _seen(pool, found)
    settled = [one.name for one in found if one.is_settled(seen[one.name])]
    rates = {name: max(seen[name]) for name in settled}
    launches = rates.get("launches", 0.0)
    return MeasuredRates(
        Rates(_flops(spec, rates, 1), _own_bandwidths(spec, rates)),
        Rates(_flops(spec, rates, spec.facts.num_cores), _shared_bandwidths(spec, rates)),
        1 / (launches * _LAUNCH_SETTLED) if launches else 0.0,
        len(settled) == len(found),
    )


def _seen(pool: Pool, found: Sequence[_Kernel]) -> dict[str, list[float]]:
    """The rates of each kernel, pass by pass; those are run again that have not settled."""
    rates: dict[str, list[float]] = {kernel.name: [] for kernel in found}
    started, num_passes = time.monotonic(), 0
    while num_passes < _LEAST_PASSES or time.monotonic() - started < _MAX_SECS:
        num_passes += 1
        unsettled = [kernel for kernel in found if not kernel.is_settled(rates[kernel.name])]
        # No call is quick enough for this limit, so that each is timed by one call.
        measured = pool.measure([kernel.mod for kernel in unsettled], hopeless_secs=1e-9)
        for index, measurement in measured:
            kernel = unsettled[index]
            rates[kernel.name].append(kernel.amount / measurement.secs)
        if not unsettled:
            break
    return rates


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
    yield _Kernel("launches", kernels.launches(cores, _LAUNCHES), _LAUNCHES, _LAUNCH_SETTLED)


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


def _bandwidth(level: _Level, rates: Mapping[str, float]) -> float:
    """0 where one of its kernels did not settle, since the other may be the slower."""
    names = [f"{level.name} {name}" for name in level.moves]
    return (
        max(rates[name] for name in names) * _BANDWIDTH_MARGIN if rates.keys() >= {*names} else 0.0
    )


def _own_bandwidths(spec: TargetSpec, rates: Mapping[str, float]) -> _Bandwidths:
    own = [level for level in _levels(spec) if level.num_cores == 1]
    return _falling([(level.num_bytes, _bandwidth(level, rates)) for level in own])


def _shared_bandwidths(spec: TargetSpec, rates: Mapping[str, float]) -> _Bandwidths:
    found = []
    for level in _levels(spec):
        share = spec.facts.num_cores // level.num_cores
        found.append((level.num_bytes * share, _bandwidth(level, rates) * share))
    return _falling(found)


def _flops(spec: TargetSpec, rates: Mapping[str, float], num_cores: int) -> dict[str, float]:
    """By dtype; what is not native is done in float32."""
    found = {}
    for name in ("float32", "float16", "int8"):
        rate, most = rates.get(f"{name} {num_cores}", 0.0), num_cores * rates.get(f"{name} 1", 0.0)
        if rate < _LEAST_SHARE * most:
            rate = most  # Others had the machine.
        if rate:
            found[name] = rate
    features = _features(spec)
    for name, native in (("float16", _NATIVE_FP16), ("bfloat16", _NATIVE_BF16)):
        if "float32" in found and not features.intersection(native):
            found[name] = found["float32"]
    return found


def _falling(seen: list[tuple[int, float]]) -> _Bandwidths:
    """Rates by footprint, from 0 up; a smaller footprint is no slower than a larger one.

    In place of an unknown rate stands that of the next smaller footprint.
    """
    known: list[tuple[int, float]] = []
    for index, (num_bytes, rate) in enumerate(seen):
        above = known[-1][1] if known else rate
        if rate and rate * _MAX_FALL >= above:
            known.append((num_bytes if index else 0, rate))
    return tuple(
        (least, max(rate for _, rate in known[index:])) for index, (least, _) in enumerate(known)
    )


def _dots(features: frozenset[str]) -> list[tuple[str, int]]:
    """The widest dot product that the machine has, if any."""
    if codegen.llvm_version_major() < _LLVM_MAJOR:
        return []
    return [(intrinsic, lanes) for name, intrinsic, lanes in _DOTS if name in features][:1]


def _features(spec: TargetSpec) -> frozenset[str]:
    target = tvm.target.Target(dict(spec.tvm_target))
    return frozenset(str(each) for each in codegen.llvm_get_cpu_features(target))
