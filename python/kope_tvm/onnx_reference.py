# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as the reference, the opponent and the shape folder; the only file to import it.

Results are compared with its optimisations disabled: its default rewrites per-channel
dequantisation into something measurably different. Times are taken with its defaults.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import onnxruntime

from kope_tvm import host
from kope_tvm.comparison import random_inputs
from kope_tvm.errors import ModelError
from kope_tvm.tensor_spec import TensorSpec

_ERRORS_ONLY = 3
_VNNI = {"avx512_vnni", "avx_vnni"}
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}


class OnnxReference:
    """One model in ONNX Runtime, on `num_threads` threads of this machine."""

    def __init__(
        self,
        model: str | Path | bytes,
        num_threads: int,
        *,
        optimised: bool,
        library: Path | None = None,
    ) -> None:
        """`library` has operators that the model uses beside ONNX Runtime's own."""
        options = _options(num_threads)
        if library is not None:
            with _onnxruntime_errors():
                options.register_custom_ops_library(str(library.resolve()))
        if not optimised:
            model = exact(model)
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = _open(model, options)
        self.input_names = tuple(edge.name for edge in self._session.get_inputs())
        self.output_names = tuple(edge.name for edge in self._session.get_outputs())

    def run(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return the outputs in the model's order."""
        with _onnxruntime_errors():
            return tuple(np.asarray(out) for out in self._session.run(None, dict(inputs)))

    def time(
        self, inputs: Mapping[str, np.ndarray], *, number: int = 10, repeat: int = 5
    ) -> tuple[float, ...]:
        """Seconds of one call, a value a repeat, after one call to warm up."""
        feed = dict(inputs)
        self.run(feed)
        return tuple(self._secs(feed, number) for _ in range(repeat))

    def random_inputs(self, seed: int) -> dict[str, np.ndarray]:
        """One random array an input; the model's shapes must be static."""
        edges = self._session.get_inputs()
        specs = [TensorSpec(one.name, tuple(one.shape), _DTYPES[one.type]) for one in edges]
        return random_inputs(specs, seed)

    def median_secs(self, inputs: Mapping[str, np.ndarray], *, number: int = 10) -> float:
        """Return the median of five repeats."""
        return median(self.time(inputs, number=number))

    def _secs(self, feed: Mapping[str, np.ndarray], number: int) -> float:
        begin = perf_counter()
        for _ in range(number):
            self._session.run(None, feed)
        return (perf_counter() - begin) / number


def exact(model: str | Path | bytes) -> str | Path | bytes:
    """The model as this machine's ONNX Runtime computes it without saturating."""
    if _VNNI & host.cpu_flags() or platform.machine() != "x86_64":
        return model
    from kope_tvm.onnx_ops.unsigned import unsigned

    given = model if isinstance(model, bytes) else Path(model).read_bytes()
    made = unsigned(given)
    return model if made is given else made  # A path also tells where a model's other files are.


def fold_shapes(model: bytes) -> bytes:
    """Compute what is constant, shapes above all, and fuse what stays inside the ONNX standard."""
    with TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        options = _options(num_threads=1)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folded)
        _open(model, options)
        return folded.read_bytes()


def version() -> str:
    """Return ONNX Runtime's version."""
    return str(onnxruntime.__version__)


def _options(num_threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    cores = sorted(os.sched_getaffinity(0))[1:num_threads]
    if len(cores) == num_threads - 1 > 0:
        # A core each, counted from 1: left alone, its threads share cores and lose a third.
        spelled = ";".join(str(core + 1) for core in cores)
        options.add_session_config_entry("session.intra_op_thread_affinities", spelled)
    return options


def _open(
    model: str | Path | bytes, options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession:
    source = model if isinstance(model, bytes) else str(model)
    providers: Sequence[str] = ["CPUExecutionProvider"]
    with _onnxruntime_errors():
        return onnxruntime.InferenceSession(source, options, providers=providers)


@contextmanager
def _onnxruntime_errors() -> Iterator[None]:
    """Its exceptions share no base class; each says in words what is wrong with the model."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"ONNX Runtime refuses the model: {error}") from error
    except Exception as error:
        if "onnxruntime" not in type(error).__module__:
            raise
        raise ModelError(f"ONNX Runtime refuses the model: {error}") from error
