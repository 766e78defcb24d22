# SPDX-License-Identifier: Apache-2.0
"""Runs what was written, where this machine is what it was written for."""

from __future__ import annotations

from pathlib import Path

from kope_tvm.artifact import Artifact
from kope_tvm.comparison import compare
from kope_tvm.errors import KopeError
from kope_tvm.evidence import Example, example_input
from kope_tvm.ort_package.edges import Operator

_NO_ARRAYS = "bfloat16"
"""ONNX Runtime's Python interface has none of this dtype."""


def prove(operator: Operator, example: Example, artifact: Artifact, library: Path) -> None:
    """Compare model and library with what the untuned build computed.

    Raises KopeError where they differ, and deletes the library. Another machine's is not run, nor
    is any where there is no ONNX Runtime.
    """
    dtypes = {param.spec.dtype for param in operator.function.params}
    if artifact.manifest.target_name != "host" or _NO_ARRAYS in dtypes:
        return
    try:
        from kope_tvm.onnx_reference import OnnxReference
    except ImportError:
        return
    model = library.with_name("model.onnx")
    session = OnnxReference(model, artifact.manifest.num_cores, optimised=True, library=library)
    feed = {
        operator.edge_name(param): example_input(param.spec, number)
        for number, param in enumerate(operator.inputs)
    }
    found = compare(session.run(feed), example.outputs)
    if not found.ok:
        library.unlink()
        raise KopeError(
            f"{library}: ONNX Runtime computes other values with it than the untuned build: "
            f"{found}; it is deleted, and `kope verify` says what is wrong with the work_dir"
        )
