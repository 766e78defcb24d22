# SPDX-License-Identifier: Apache-2.0
"""What a work_dir has learned of an MLIR file, as a transform script that is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path

import numpy as np
from tvm import IRModule
from tvm.target import Target
from tvm.tirx import PrimFunc

from kope_tvm.errors import KopeError
from kope_tvm.learned import Learned
from kope_tvm.mlir.bindings import interpreter, ir, parse
from kope_tvm.mlir.execution import Array, Job, execute
from kope_tvm.mlir.importing import import_text
from kope_tvm.mlir.script_text import ScriptText
from kope_tvm.mlir.source import Source
from kope_tvm.mlir.winner import Winner
from kope_tvm.model import load_model
from kope_tvm.target import TargetSpec
from kope_tvm.toolchain import toolchain

_ENTRY = "__transform_main"
_VECTOR_BITS = 128
"""Of a machine that does not say."""
_FLOAT_BITS = 32
_MASKED = ("avx512", "rvv")
"""Machines whose vectors have masks."""
TOLERANCE = 1e-3
"""Of two ways to the same values, relative to the largest."""


@dataclass(frozen=True)
class TransformScript:
    """A script, and what is said about it."""

    text: str
    functions: tuple[str, ...]
    """The functions that it changes."""
    left_out: tuple[str, ...]
    """What of their schedules it does not say."""
    checked: str
    """How its result was compared with MLIR's default lowering."""


@dataclass(frozen=True)
class Scheduled:
    """One function that a work_dir makes faster."""

    symbol: str
    text: str
    """A module with it in linalg."""
    sources: Mapping[str, Source]
    untouched: PrimFunc
    tuned: PrimFunc
    lane: str


@dataclass(frozen=True)
class Header:
    """What a script says of itself before it begins."""

    name: str
    """Of the file that it is for."""
    target: TargetSpec
    functions: tuple[str, ...]
    """All that the file has."""


def export_script(path: Path, target: TargetSpec, work_dir: Path) -> TransformScript:
    """The fastest schedules of a file's functions; raises KopeError where none computes right."""
    text = path.read_text(encoding="utf-8")
    imported = import_text(text, str(path))
    tuned, coverage = Learned.open(work_dir, Target(dict(target.tvm_target))).apply(imported.mod)
    scheduled = [
        Scheduled(name, text, imported.sources[name], imported.mod[name], tuned[name], lane)
        for name, lane in zip(coverage.hit, coverage.lanes, strict=True)
    ]
    return right_script(scheduled, Header(path.name, target, tuple(imported.sources)))


def right_script(scheduled: Sequence[Scheduled], header: Header) -> TransformScript:
    """One script for all functions; raises KopeError where there are some and none is right."""
    right: list[_Right] = []
    failed: list[str] = []
    for one in scheduled:
        found = _right(one, header)
        if isinstance(found, _Right):
            right.append(found)
        else:
            failed.append(f"{one.symbol}: {found}")
    if failed and not right:
        raise KopeError(f"{header.name}: no script of its schedules applies: {'; '.join(failed)}")
    script, left_out = _written(right, header.target)
    told = (*left_out, *(f"{reason}; it stays as it is" for reason in failed))
    functions = tuple(each.scheduled.symbol for each in right)
    worst = max((each.distance for each in right), default=0.0)
    checked = f"right to {worst:.1e} of MLIR's default lowering"
    return TransformScript(
        script.module(list(_header(header, functions, told))), functions, told, checked
    )


def applied(text: str, script: str, name: str) -> str:
    """The module after the script, as text; raises KopeError where the script does not apply."""
    module = parse(text, name)
    with module.context:
        transform = ir.Module.parse(script)
        entry = next(
            op
            for op in transform.body.operations
            if ir.StringAttr(op.attributes["sym_name"]).value == _ENTRY
        )
        try:
            interpreter.apply_named_sequence(module.operation, entry, transform)
        except (RuntimeError, ValueError, ir.MLIRError) as error:
            raise KopeError(f"{name}: the script does not apply: {error}") from error
        return str(module)


@dataclass(frozen=True)
class _Right:
    """A function whose script computes the right values."""

    scheduled: Scheduled
    has_vectors: bool = True
    """Otherwise it tiles, and leaves vectors to whoever lowers it."""
    packs: bool = True
    distance: float = 0.0


def _right(one: Scheduled, header: Header) -> _Right | str:
    """With packed operands, without them, without vectors either; else why none is right."""
    if one.lane == "rewrite":
        return "it was written anew, and its loops are not of the file's operations"
    reasons: list[str] = []
    for has_vectors, packs in ((True, True), (True, False), (False, False)):
        found = _Right(one, has_vectors, packs)
        script, _ = _written([found], header.target)
        text = script.module([])
        try:
            applied(one.text, text, header.name)
            return replace(found, distance=_checked(one, text))
        except KopeError as error:
            reasons.append(str(error).splitlines()[0])
    return "; ".join(dict.fromkeys(reasons))


def _written(right: Sequence[_Right], target: TargetSpec) -> tuple[ScriptText, tuple[str, ...]]:
    """The script, and what of the schedules it does not say."""
    lanes = max(target.facts.vlen_bits or _VECTOR_BITS, _VECTOR_BITS) // _FLOAT_BITS
    script, left_out = ScriptText(), list[str]()
    for each in right:
        one = each.scheduled
        winner = Winner(
            one.tuned,
            one.sources,
            lanes,
            script,
            left_plain=frozenset() if each.has_vectors else frozenset(one.sources),
            has_masks=target.facts.isa in _MASKED,
            packs=each.packs,
        )
        winner.write(one.symbol)
        left_out += [f"{one.symbol}: {reason}" for reason in winner.left_out]
    return script, tuple(left_out)


def _header(header: Header, tuned: Sequence[str], left_out: Sequence[str]) -> Iterator[str]:
    yield f"The schedules of {header.name} for {header.target.name}, by kope-tvm ({toolchain()})."
    for symbol in header.functions:
        yield f"{symbol}: {'tuned' if symbol in tuned else 'untuned, left as it is'}"
    yield from (f"left out: {reason}" for reason in left_out)


def _checked(one: Scheduled, script: str) -> float:
    """How far its results are from the default lowering's; KopeError where that is too far."""
    arguments = _arguments(one)
    want = execute(Job(one.text, function=one.symbol), [arguments]).outputs[0]
    have = execute(Job(one.text, script, function=one.symbol), [arguments]).outputs[0]
    worst = max(starmap(distance, zip(want, have, strict=True)), default=0.0)
    if worst > TOLERANCE:
        raise KopeError(f"the script's result differs by {worst:.1e}")
    return worst


def _arguments(one: Scheduled) -> list[Array]:
    """Normal numbers for every argument, the same in every run."""
    random = np.random.default_rng(0)
    model = load_model(IRModule({one.symbol: one.untouched}))
    return [
        np.asarray(random.standard_normal(spec.shape) * 4).astype(spec.dtype)
        for spec in model.inputs
    ]


def distance(want: Array, have: Array) -> float:
    """The largest difference, relative to the largest value; infinite where a NaN is only one's."""
    exact, found = want.astype(np.float64), have.astype(np.float64)
    is_same = (exact == found) | (np.isnan(exact) & np.isnan(found))
    if not np.isfinite(exact[~is_same]).all() or not np.isfinite(found[~is_same]).all():
        return float("inf")
    size = max(float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0)), 1.0)
    return float(np.abs(exact[~is_same] - found[~is_same]).max(initial=0.0)) / size
