# SPDX-License-Identifier: Apache-2.0
"""How alike two tasks and two machines are, 0..1, by what a schedule depends on.

Sizes are compared by log ratio: likeness halves with every 16x. Only the same task or machine is 1.
"""

from __future__ import annotations

from math import log2

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.rows import Machine
from kope_tvm.task import Features

Vector = NDArray[np.float32]

_MAX_LOOPS = 8
"""Loops compared of each kind, the innermost; most functions have fewer."""
_OCTAVES_TO_HALVE = 4.0
_UNKNOWN_OCTAVES = 2.0
"""What a symbolic extent, or a fact that one side lacks, counts as."""
_NOT_THE_SAME = 0.99
_OTHER_LOOP_COUNT = 0.7
_OTHER_DTYPES = 0.5
_OTHER_STRIDES = 0.7
_APART = 2
"""Any stride above one element: what matters is whether a vector is one load, one element or many.
"""
OTHER_CLASS = 0.2
"""Factor for a task of another operator class."""

_RANKS = slice(2 * _MAX_LOOPS, 2 * _MAX_LOOPS + 2)
_INTENSITY = 2 * _MAX_LOOPS + 2
_DTYPES = _INTENSITY + 1
_STRIDES = _DTYPES + 1
WIDTH = _STRIDES + 1
_EXTENTS_WEIGHT = 0.8


class Embedding:
    """Turns features into rows of numbers; rows of one embedding may be compared."""

    def __init__(self) -> None:
        self._dtypes: dict[tuple[str, ...], int] = {}
        self._strides: dict[tuple[int, ...], int] = {(): 0}

    def vector(self, features: Features) -> Vector:
        """Log extents (spatial, reduce), loop counts, log intensity, dtypes and strides by number.

        The number for strides is 0 where they are not known: older versions did not write them.
        """
        row = np.zeros(WIDTH, np.float32)
        row[:_MAX_LOOPS] = _octaves(features.spatial_extents)
        row[_MAX_LOOPS : 2 * _MAX_LOOPS] = _octaves(features.reduce_extents)
        row[_RANKS] = len(features.spatial_extents), len(features.reduce_extents)
        row[_INTENSITY] = log2(max(features.intensity, 2.0**-10))
        row[_DTYPES] = self._dtypes.setdefault(features.dtypes, len(self._dtypes))
        kinds = tuple(stride if stride in (0, 1) else _APART for stride in features.strides)
        row[_STRIDES] = self._strides.setdefault(kinds, len(self._strides))
        return row


def _octaves(extents: tuple[int, ...]) -> list[float]:
    """Log extents of the innermost loops; the missing outer ones are loops of one turn."""
    kept = extents[-_MAX_LOOPS:]
    logs = [log2(max(extent, 1)) if extent >= 0 else float("nan") for extent in kept]
    return [0.0] * (_MAX_LOOPS - len(logs)) + logs


def task_similarity(ours: Vector, theirs: Vector) -> NDArray[np.float64]:
    """How alike a task is to each row of `theirs`, operator class aside."""
    mine, rows = ours[: 2 * _MAX_LOOPS], theirs[:, : 2 * _MAX_LOOPS]
    apart = np.abs(rows - mine)
    both_symbolic = np.isnan(rows) & np.isnan(mine)
    apart = np.where(both_symbolic, 0.0, np.where(np.isnan(apart), _UNKNOWN_OCTAVES, apart))
    num_loops = np.maximum(theirs[:, _RANKS], ours[_RANKS]).sum(axis=1)
    mean = apart.sum(axis=1) / np.maximum(num_loops, 1.0)
    intensity = np.abs(theirs[:, _INTENSITY] - ours[_INTENSITY])
    octaves = _EXTENTS_WEIGHT * mean + (1 - _EXTENTS_WEIGHT) * intensity
    same_loops = (theirs[:, _RANKS] == ours[_RANKS]).all(axis=1)
    factor = np.where(same_loops, 1.0, _OTHER_LOOP_COUNT)
    factor = factor * np.where(theirs[:, _DTYPES] == ours[_DTYPES], 1.0, _OTHER_DTYPES)
    same_strides = (theirs[:, _STRIDES] * ours[_STRIDES] == 0) | (
        theirs[:, _STRIDES] == ours[_STRIDES]
    )
    factor = factor * np.where(same_strides, 1.0, _OTHER_STRIDES)
    return np.asarray(_NOT_THE_SAME * factor * 2.0 ** (-octaves / _OCTAVES_TO_HALVE), np.float64)


def machine_similarity(ours: Machine, theirs: Machine) -> float:
    """How alike two core classes are: instruction set, vector length, cores, caches."""
    if ours.key == theirs.key:
        return 1.0
    mine, other = ours.facts, theirs.facts
    pairs = (
        (mine.vlen_bits, other.vlen_bits),
        (mine.num_cores, other.num_cores),
        (mine.l1_bytes, other.l1_bytes),
        (mine.l2_bytes, other.l2_bytes),
        (mine.l3_bytes, other.l3_bytes),
    )
    octaves = sum(_apart(*pair) for pair in pairs) / len(pairs)
    likeness: float = 2.0 ** (-octaves / _OCTAVES_TO_HALVE)
    return _NOT_THE_SAME * _same_isa(ours, theirs) * likeness


def _same_isa(ours: Machine, theirs: Machine) -> float:
    if ours.kind != theirs.kind:
        return 0.1
    return 1.0 if ours.facts.isa == theirs.facts.isa else 0.5


def _apart(mine: int, other: int) -> float:
    if mine == other:
        return 0.0
    if not mine or not other:
        return _UNKNOWN_OCTAVES
    return abs(log2(mine / other))
