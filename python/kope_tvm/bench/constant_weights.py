# SPDX-License-Identifier: Apache-2.0
"""An operator as a model with its weights in it, which ONNX Runtime packs before the first call."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper


def with_constants(model: bytes, weights: Mapping[str, np.ndarray]) -> bytes:
    """The model with these inputs as initializers."""
    found = onnx.load_from_string(model)
    inputs = [one for one in found.graph.input if one.name not in weights]
    del found.graph.input[:]
    found.graph.input.extend(inputs)
    found.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return bytes(found.SerializeToString())
