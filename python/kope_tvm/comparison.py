# SPDX-License-Identifier: Apache-2.0
"""How far outputs are from reference outputs, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kope_tvm.errors import UsageError
from kope_tvm.tensor_spec import TensorSpec

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Allowed error by dtype, as a share of the largest reference value; other dtypes are exact."""


@dataclass(frozen=True)
class Comparison:
    """The worst difference between outputs and reference outputs."""

    max_abs: float
    max_rel: float
    """As a share of the output's largest reference value."""
    where: str
    """The place of the worst difference, or what differs in kind; empty where nothing does."""
    ok: bool

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        return f"max_abs {self.max_abs:.2g}, max_rel {self.max_rel:.2g}{place}"


def compare(
    outputs: Sequence[np.ndarray],
    references: Sequence[np.ndarray],
    allowed: Sequence[float] | None = None,
) -> Comparison:
    """Compare output by output; NaN and infinity must sit in the same places.

    `allowed` is an error an output that counts where it is above its dtype's.
    """
    if len(outputs) != len(references):
        where = f"{len(outputs)} outputs for {len(references)}"
        return Comparison(np.inf, np.inf, where, ok=False)
    each = zip(outputs, references, allowed or [0.0] * len(outputs), strict=True)
    found = [_compare_one(number, *of_output) for number, of_output in enumerate(each)]
    return max(found, key=lambda each: (not each.ok, each.max_rel))


def _compare_one(
    number: int, output: np.ndarray, reference: np.ndarray, allowed: float
) -> Comparison:
    if output.shape != reference.shape or output.dtype != reference.dtype:
        where = (
            f"output {number}: {output.dtype}{list(output.shape)} "
            f"for {reference.dtype}{list(reference.shape)}"
        )
        return Comparison(np.inf, np.inf, where, ok=False)
    if not output.size:
        return Comparison(0.0, 0.0, "", ok=True)
    ours, theirs = _widen(output), _widen(reference)
    finite = np.isfinite(theirs)
    with np.errstate(invalid="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        error = np.where(same, 0.0, np.where(finite, np.abs(ours - theirs), np.inf))
    error = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
    scale = float(np.abs(theirs[finite]).max(initial=0.0))
    worst = float(error.max())
    relative = worst / scale if scale else (0.0 if worst == 0.0 else np.inf)
    where = f"output {number} [{_index(error)}]" if worst else ""
    most = max(allowed, TOLERANCE.get(str(output.dtype), 0.0))
    return Comparison(worst, relative, where, ok=relative <= most)


def _widen(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind != "c" else array


def _index(error: np.ndarray) -> str:
    at = np.unravel_index(int(error.argmax()), error.shape)
    return ", ".join(str(int(axis)) for axis in at)


def random_inputs(specs: Sequence[TensorSpec], seed: int) -> dict[str, np.ndarray]:
    """Return one array an input: uniform floats, all of int8 and uint8, 0 or 1 for wider integers.

    Wider integers are mostly indices, and 0 and 1 are inside anything worth indexing.
    """
    rng = np.random.default_rng(seed)
    return {spec.name: _random(rng, spec) for spec in specs}


def _random(rng: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    if -1 in spec.shape:
        raise UsageError(f"input {spec} has a symbolic shape: no inputs can be made up for it")
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu":
        narrow = dtype.itemsize == 1
        low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if narrow else (0, 1)
        return rng.integers(low, high, spec.shape, dtype=dtype, endpoint=True)
    if dtype.kind == "b":
        return rng.integers(0, 2, spec.shape).astype(dtype)
    return rng.uniform(-1.0, 1.0, spec.shape).astype(dtype)
