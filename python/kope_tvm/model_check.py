# SPDX-License-Identifier: Apache-2.0
"""What a model's outputs must be: ONNX Runtime's, and those of the untuned build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kope_tvm.artifact import Artifact
from kope_tvm.comparison import Comparison, compare, random_inputs
from kope_tvm.model import Model

_NUDGE = 2.0**-16
"""Of an input's value: what float32's rounding in some tens of layers of some hundred terms each
comes to, `2**-24 * sqrt(layers * terms)`."""
_MOST_ALLOWED = 1e-2
_IMPORT_IS_OFF = "; the untuned build is as far off: TVM's import differs, not the tuning"


Outputs = Sequence[np.ndarray]


@dataclass(frozen=True)
class ModelCheck:
    """A compiled model against its references; None where there is none."""

    onnxruntime: Comparison | None
    untuned: Comparison
    untuned_onnxruntime: Comparison | None
    """The untuned build against ONNX Runtime: what the import itself is off by."""

    @property
    def ok(self) -> bool:
        return self.untuned.ok and (self.onnxruntime is None or self.onnxruntime.ok)

    @property
    def is_tuning_right(self) -> bool:
        """Whether nothing is wrong that was not wrong untuned."""
        of_import = self.untuned_onnxruntime
        return self.ok or (self.untuned.ok and of_import is not None and not of_import.ok)

    def __str__(self) -> str:
        against = f"against the untuned build: {self.untuned}"
        if self.onnxruntime is None:
            return against
        blame = "" if self.onnxruntime.ok or not self.untuned.ok else _IMPORT_IS_OFF
        return f"against ONNX Runtime: {self.onnxruntime}; {against}{blame}"


class ModelReferences:
    """The outputs of the references, computed once for any number of builds."""

    def __init__(self, model: Model, untuned: Artifact, seeds: int = 3) -> None:
        """`untuned` is the same model compiled without a work_dir, for this machine."""
        self.untuned = untuned
        self.feeds = [random_inputs(model.inputs, seed) for seed in range(seeds)]
        self._model = model
        self._reference = _reference(model, untuned.manifest.num_cores)
        self._plain = [untuned.run(feed) for feed in self.feeds]
        self._theirs = [self._by_onnx(feed) for feed in self.feeds] if self._reference else []

    def check(self, artifact: Artifact) -> ModelCheck:
        """Compare a build with them.

        Where outputs are further off than their dtypes allow, what counts is how far the reference
        itself moves for inputs that hardly differ: a sigmoid's tail is mostly rounding.
        """
        ours = [artifact.run(feed) for feed in self.feeds]
        found = self._checked(ours, [None] * len(ours))
        return found if found.ok else self._checked(ours, self._allowed)

    def _checked(
        self, ours: Sequence[Outputs], allowed: Sequence[Sequence[float] | None]
    ) -> ModelCheck:
        theirs = self._theirs
        return ModelCheck(
            onnxruntime=_worst(ours, theirs, allowed) if theirs else None,
            untuned=_worst(ours, self._plain, allowed),
            untuned_onnxruntime=_worst(self._plain, theirs, allowed) if theirs else None,
        )

    @cached_property
    def _allowed(self) -> list[list[float]]:
        """An error an output and feed: two that compute the same are each so far off."""
        run, before = (
            (self._by_onnx, self._theirs) if self._reference else (self.untuned.run, self._plain)
        )
        return [
            [_moved(*pair) for pair in zip(outputs, run(_nudged(feed)), strict=True)]
            for outputs, feed in zip(before, self.feeds, strict=True)
        ]

    def _by_onnx(self, feed: Mapping[str, np.ndarray]) -> Outputs:
        values = [feed[spec.name] for spec in self._model.inputs]
        names = self._reference.input_names
        return list(self._reference.run(dict(zip(names, values, strict=True))))


def _nudged(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs, floating ones up or down by a little."""
    rng = np.random.default_rng(0)

    def nudged(value: np.ndarray) -> np.ndarray:
        if value.dtype.kind != "f":
            return value
        return (value * (1 + _NUDGE * rng.choice((-1, 1), value.shape))).astype(value.dtype)

    return {name: nudged(value) for name, value in feed.items()}


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    """Twice the share of its largest value that an output moved by; nothing of whole numbers."""
    if before.dtype.kind != "f":
        return 0.0
    moved = compare([after], [before]).max_rel
    return min(2 * moved, _MOST_ALLOWED)


def _reference(model: Model, num_threads: int) -> Any:
    if model.onnx is None:
        return None
    from kope_tvm.onnx_reference import OnnxReference

    return OnnxReference(model.onnx, num_threads, optimised=False)


def _worst(
    outputs: Sequence[Outputs],
    references: Sequence[Outputs],
    allowed: Sequence[Sequence[float] | None],
) -> Comparison:
    found = [compare(*of_feed) for of_feed in zip(outputs, references, allowed, strict=True)]
    return max(found, key=lambda each: (not each.ok, each.max_rel))
