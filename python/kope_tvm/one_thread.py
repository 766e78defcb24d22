# SPDX-License-Identifier: Apache-2.0
"""Which short functions of a model run on one thread: measured in the model, not one by one.

Alone, its inputs in the caches of the cores that read them, a function of some microseconds gains
by a second thread. In a model what it reads was written by another core a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import tvm_ffi
from tvm import IRModule
from tvm.tirx import For, ForKind, PrimFunc

from kope_tvm.artifact import Artifact
from kope_tvm.performance import Comparison

_SHORT_SECS = 100e-6
"""Of a call in the model; longer ones gain by more than their data's way."""
_SMALL_SHARE = 0.05
"""Of a model's time, below which its short functions are not worth two builds."""


@dataclass(frozen=True)
class Threads:
    """A build, and what its short functions on one thread brought."""

    artifact: Artifact
    on_one: tuple[str, ...] = ()
    gain: float = 1.0
    """Over the build with all of them on all threads."""

    def __str__(self) -> str:
        return f"{len(self.on_one)} short functions on one, {self.gain:.2f}x all of them on all"


def on_one_thread(mod: IRModule, names: Collection[str]) -> IRModule:
    """The module, the loops of the named functions run by their caller alone."""
    made = mod.clone()
    for var, func in mod.functions.items():
        if str(var.name_hint) in names:
            body = tvm_ffi.structural_map(func.body, [(For, _in_turn)])
            made.update_func(var, func.with_body(body))
    return made


def planned(
    spread: Artifact,
    inputs: Mapping[str, np.ndarray],
    build: Callable[[Collection[str]], Artifact],
    beside: Callable[[Artifact, Artifact], Comparison],
) -> Threads:
    """The fastest of a build and those with its short functions on one thread: all, or who gained.

    `build` takes the names of the functions to run on one, `beside` times two builds in turns.
    """
    before = _call_secs(spread, inputs)
    short = _short_functions(spread, before)
    if sum(before[name] for name in short) < _SMALL_SHARE * sum(before.values()):
        return Threads(spread)
    alone = build(short)
    after = _call_secs(alone, inputs)
    gained = tuple(name for name in short if after.get(name, inf) < before[name])
    best = Threads(spread)
    for names in dict.fromkeys((short, gained)):
        made = alone if names == short else build(names)
        found = beside(made, best.artifact)
        if names and found.faster:
            best = Threads(made, names, best.gain * found.gain)
    return best


def _short_functions(artifact: Artifact, secs: Mapping[str, float]) -> tuple[str, ...]:
    """Those of its functions that take several threads for little work."""
    assert artifact.mod is not None
    spread = {
        str(var.name_hint) for var, func in artifact.mod.functions.items() if _is_spread(func)
    }
    return tuple(name for name in secs if name in spread and secs[name] < _SHORT_SECS)


def _call_secs(artifact: Artifact, inputs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Of one call of each function within the model."""
    return {each.name: each.secs / each.calls for each in artifact.profile(inputs)}


def _is_spread(func: Any) -> bool:
    loops: list[Any] = []
    if isinstance(func, PrimFunc):
        tvm_ffi.structural_walk(func.body, [(For, loops.append)], order="pre")
    return any(loop.kind == ForKind.PARALLEL for loop in loops)


def _in_turn(loop: Any) -> Any:
    if loop.kind != ForKind.PARALLEL:
        return loop
    return For(
        loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, loop.body, None, loop.annotations
    )
