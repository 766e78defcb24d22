# SPDX-License-Identifier: Apache-2.0
"""Short functions run on one thread where the model is faster so, and by measurement only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import tvm
from tvm import IRModule

from kope_tvm.artifact import Artifact, OpTime
from kope_tvm.one_thread import Threads, on_one_thread, planned
from kope_tvm.performance import Comparison

_US = 1e-6
_FUNC = """
    @T.prim_func(s_tir=True)
    def {name}(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for i in {loop}(64):
            with T.sblock("y"):
                v = T.axis.spatial(64, i)
                y[v] = x[v] + T.float32(1.0)
"""


def _module(**loops: str) -> IRModule:
    """A function a name, of one loop of a kind."""
    funcs = [_FUNC.format(name=name, loop=loop) for name, loop in loops.items()]
    return tvm.script.from_source("@I.ir_module\nclass Module:" + "".join(funcs))


@dataclass
class _Model:
    """A model as the planner sees it: microseconds of its functions, on all threads and on one."""

    times: Mapping[str, tuple[float, float]]
    mod: IRModule
    built: list[frozenset[str]] = field(default_factory=list)

    def spread(self) -> Artifact:
        return self._build(())

    def build(self, names: Collection[str]) -> Artifact:
        self.built.append(frozenset(names))
        return self._build(names)

    def _build(self, names: Collection[str]) -> Artifact:
        secs = {name: each[name in names] * _US for name, each in self.times.items()}
        return cast(Artifact, _Build(self.mod, secs))

    def planned(self) -> Threads:
        return planned(self.spread(), {}, self.build, _beside)


@dataclass
class _Build:
    mod: IRModule
    secs: Mapping[str, float]

    def profile(self, _inputs: Mapping[str, np.ndarray]) -> tuple[OpTime, ...]:
        return tuple(OpTime(name, 2 * secs, 2) for name, secs in self.secs.items())


def _beside(ours: Any, theirs: Any) -> Comparison:
    gain = sum(theirs.secs.values()) / sum(ours.secs.values())
    return Comparison(correct=True, suspicious=False, faster=gain >= 1.03, gain=gain, needed=1.03)


def test_the_loops_of_named_functions_run_in_turn() -> None:
    mod = on_one_thread(_module(a="T.parallel", b="T.parallel", c="T.unroll"), {"a", "c"})
    assert mod.script() == _module(a="range", b="T.parallel", c="T.unroll").script()


def test_all_of_them_where_all_gain() -> None:
    model = _Model({"a": (8, 4), "b": (6, 3)}, _module(a="T.parallel", b="T.parallel"))
    found = model.planned()
    assert (found.on_one, found.gain) == (("a", "b"), 2.0)
    assert model.built == [{"a", "b"}]
    assert str(found) == "2 short functions on one, 2.00x all of them on all"


def test_those_who_gain_where_others_lose() -> None:
    model = _Model({"a": (8, 4), "b": (40, 60)}, _module(a="T.parallel", b="T.parallel"))
    found = model.planned()
    assert found.on_one == ("a",)
    assert found.gain == 48 / 44
    assert model.built == [{"a", "b"}, {"a"}]


def test_none_where_the_model_is_not_faster() -> None:
    model = _Model({"a": (8.0, 7.9), "b": (40, 60)}, _module(a="T.parallel", b="T.parallel"))
    found = model.planned()
    assert (found.on_one, found.gain) == ((), 1.0)


def test_long_functions_and_those_of_one_thread_are_left_alone() -> None:
    model = _Model({"a": (200, 1), "b": (8, 1)}, _module(a="T.parallel", b="range"))
    assert model.planned().on_one == ()
    assert model.built == []


def test_short_functions_of_little_weight_are_not_built_for() -> None:
    model = _Model({"a": (8, 1), "b": (200, 200)}, _module(a="T.parallel", b="T.parallel"))
    assert model.planned().on_one == ()
    assert model.built == []
