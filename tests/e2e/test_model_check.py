# SPDX-License-Identifier: Apache-2.0
"""How far a model's outputs may be off: as far as its reference is sure of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from kope_tvm.compilation import compile_model
from kope_tvm.machine import load_target
from kope_tvm.model import Model, load_model
from kope_tvm.model_check import ModelReferences

pytestmark = pytest.mark.e2e
HOST = load_target("host")
SHIFT = -10.0
"""Sigmoids of it are 4.5e-5: ONNX Runtime's have 24 bits behind the point, some 1e-3 of that."""


def shifted_sigmoid(path: str, shift: float) -> Model:
    """`sigmoid(x + shift)` of 64 values."""
    made = helper.make_graph(
        [
            helper.make_node("Add", ["x", "shift"], ["moved"]),
            helper.make_node("Sigmoid", ["moved"], ["y"]),
        ],
        "sigmoid",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor("shift", TensorProto.FLOAT, [1], [shift])],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), path)
    return load_model(path)


@dataclass(frozen=True)
class Scaled:
    """A build whose outputs are off by a share."""

    build: object
    share: float

    def run(self, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        outputs = self.build.run(feed)  # type: ignore[attr-defined]
        return [(out * np.float32(1 + self.share)).astype(out.dtype) for out in outputs]


def test_the_tail_of_a_sigmoid_is_judged_by_what_the_reference_knows_of_it(tmp_path: Path) -> None:
    model = shifted_sigmoid(str(tmp_path / "tail.onnx"), SHIFT)
    untuned = compile_model(model, HOST)
    references = ModelReferences(model, untuned)
    found = references.check(untuned)
    assert found.onnxruntime is not None
    assert 1e-4 < found.onnxruntime.max_rel < 1e-2
    assert found.ok, str(found)
    assert not references.check(Scaled(untuned, 0.02)).ok  # type: ignore[arg-type]


def test_where_the_reference_is_sure_a_ten_thousandth_is_all(tmp_path: Path) -> None:
    model = shifted_sigmoid(str(tmp_path / "middle.onnx"), 0.0)
    untuned = compile_model(model, HOST)
    references = ModelReferences(model, untuned)
    assert references.check(untuned).ok
    assert references.check(Scaled(untuned, 5e-5)).ok  # type: ignore[arg-type]
    assert not references.check(Scaled(untuned, 2e-4)).ok  # type: ignore[arg-type]
