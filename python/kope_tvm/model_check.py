# SPDX-License-Identifier: Apache-2.0
"""What a model's outputs must be: ONNX Runtime's, and those of the untuned build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kope_tvm.artifact import Artifact
from kope_tvm.comparison import Comparison, compare, random_inputs
from kope_tvm.model import Model

_IMPORT_IS_OFF = "; the untuned build is as far off: TVM's import differs, not the tuning"


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
        self._plain = [untuned.run(feed) for feed in self.feeds]
        reference = _reference(model, untuned.manifest.num_cores)
        self._theirs = (
            [reference.run(_by_position(reference, model, feed)) for feed in self.feeds]
            if reference
            else []
        )

    def check(self, artifact: Artifact) -> ModelCheck:
        """Compare a build with them."""
        ours = [artifact.run(feed) for feed in self.feeds]
        return ModelCheck(
            onnxruntime=_worst(ours, self._theirs) if self._theirs else None,
            untuned=_worst(ours, self._plain),
            untuned_onnxruntime=_worst(self._plain, self._theirs) if self._theirs else None,
        )


def _reference(model: Model, num_threads: int) -> Any:
    if model.onnx is None:
        return None
    from kope_tvm.onnx_reference import OnnxReference

    return OnnxReference(model.onnx, num_threads, optimised=False)


def _by_position(
    reference: Any, model: Model, feed: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    values = [feed[spec.name] for spec in model.inputs]
    return dict(zip(reference.input_names, values, strict=True))


def _worst(
    outputs: Sequence[Sequence[np.ndarray]], references: Sequence[Sequence[np.ndarray]]
) -> Comparison:
    found = [compare(*pair) for pair in zip(outputs, references, strict=True)]
    return max(found, key=lambda each: (not each.ok, each.max_rel))
