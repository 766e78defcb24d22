# SPDX-License-Identifier: Apache-2.0
"""Runs exported folders in ONNX Runtime: in this process, and in one of its oldest version."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope_tvm.exporters.onnxruntime import Onnxruntime
from kope_tvm.exporting import exportable
from kope_tvm.machine import load_target
from kope_tvm.model import Model

OLD = Path(__file__).resolve().parents[2] / "build" / "onnxruntime-old"
_WORK = """
import sys
import numpy as np
import onnxruntime

library, model, inputs, outputs = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.register_custom_ops_library(library)
session = onnxruntime.InferenceSession(model, options)
try:
    found = session.run(None, dict(np.load(inputs)))
except Exception as error:
    sys.exit(str(error))
np.savez(outputs, *found)
print(onnxruntime.__version__)
"""


def exported(
    model: Model, out: Path, *, target: str = "host", work_dir: Path | None = None, name: str = "k"
) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    found = exportable(model, load_target(target), work_dir)
    Onnxruntime(name, found.evidence).export(found.artifact, out)
    return out


def library_of(folder: Path) -> str:
    return str(next(folder.glob("lib*_ort.so")))


def session_of(*folders: Path, model: Path | None = None, threads: int = 2) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    for folder in folders:
        options.register_custom_ops_library(library_of(folder))
    return onnxruntime.InferenceSession(model or folders[0] / "model.onnx", options)


def run_here(folder: Path, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(each) for each in session_of(folder).run(None, dict(feeds))]


def run_in_old(
    folder: Path, feeds: Mapping[str, np.ndarray], model: Path | None = None
) -> list[np.ndarray]:
    """The outputs; AssertionError with what it said where it failed."""
    done = _in_old(folder, feeds, model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("1.17.", "1.20."))
    with np.load(folder / "old.npz") as found:
        return [found[f"arr_{i}"] for i in range(len(found))]


def refusal_in_old(folder: Path, feeds: Mapping[str, np.ndarray], model: Path) -> str:
    done = _in_old(folder, feeds, model)
    assert done.returncode == 1
    return done.stderr


def _in_old(
    folder: Path, feeds: Mapping[str, np.ndarray], model: Path | None
) -> subprocess.CompletedProcess[str]:
    if not (OLD / "stamp").is_file():
        pytest.skip("needs an old ONNX Runtime; make build/onnxruntime-old/stamp")
    arrays: dict[str, Any] = dict(feeds)
    np.savez(folder / "feeds.npz", **arrays)
    files = (model or folder / "model.onnx", folder / "feeds.npz", folder / "old.npz")
    return subprocess.run(
        [sys.executable, "-c", _WORK, library_of(folder), *map(str, files)],
        env={**os.environ, "PYTHONPATH": str(OLD)},
        capture_output=True,
        text=True,
        check=False,
    )
