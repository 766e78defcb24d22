# SPDX-License-Identifier: Apache-2.0
"""What the simulated machine is made of: the X60's costs, records of regions, rank correlation."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import kope_tvm
from kope_tvm.device.simulate.counted import read
from kope_tvm.device.simulate.opinions.ranks import Agreement, spearman
from kope_tvm.device.spike.right import required_vlen

COSTS = Path(kope_tvm.__file__).parent / "device" / "simulate" / "costs"


@pytest.fixture(scope="module")
def busy() -> dict[tuple[str, str, str], int]:
    """Cycles that (instruction, SEW, LMUL) keeps its unit."""
    classes: dict[str, list[list[str]]] = {}
    for row in _rows("spacemit-x60.classes.tsv"):
        classes.setdefault(row[0], []).append(row)
    return {
        (name, sew, lmul): int(cycles)
        for _, _, number, name in _rows("spacemit-x60.encodings.tsv")
        for _, sew, lmul, _, _, cycles in classes[number]
    }


def _rows(name: str) -> list[list[str]]:
    lines = (COSTS / name).read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("instruction", "lmul", "cycles"),
    [("vfmacc.vf", "m1", 1), ("vfmacc.vf", "m4", 4), ("vle32.v", "m1", 3), ("vle32.v", "m8", 16)],
)
def test_costs_are_llvms(
    busy: dict[tuple[str, str, str], int], instruction: str, lmul: str, cycles: int
) -> None:
    assert busy[instruction, "32", lmul] == cycles


def test_an_encoding_has_costs_at_every_width(busy: dict[tuple[str, str, str], int]) -> None:
    widths = {(sew, lmul) for name, sew, lmul in busy if name == "vfmacc.vf"}
    assert len(widths) == 4 * 7


def test_regions_come_in_the_order_in_which_they_ended(tmp_path: Path) -> None:
    later = struct.pack("<15Q", 20, 3200, 1_600_000_000, *range(12))
    earlier = struct.pack("<15Q", 10, 1600, 1_600_000_000, *range(12))
    (tmp_path / "7.regions").write_bytes(later)
    (tmp_path / "9.regions").write_bytes(earlier + later[:40])
    first, second = read(tmp_path)
    assert (first.cycles, second.cycles) == (1600, 3200)
    assert second.secs == 2e-6
    assert (second.instructions, second.code_misses) == (0, 11)


@pytest.mark.parametrize(
    ("right", "rho"),
    [([10, 20, 30, 40], 1.0), ([4, 3, 2, 1], -1.0), ([5, 5, 5, 5], 0.0), ([1, 3, 2, 4], 0.8)],
)
def test_spearman(right: list[float], rho: float) -> None:
    assert spearman([1, 2, 3, 4], right) == pytest.approx(rho)


def test_strong_disagreement_is_named() -> None:
    assert Agreement("matmul", 8, 0.2, 0.1).word == "opinions disagree"
    assert Agreement("matmul", 8, 0.95, -0.3).word == "opinions disagree"
    assert Agreement("matmul", 8, 0.2, 0.9).word == "agree"


def test_the_length_that_an_object_needs() -> None:
    assert required_vlen(b"rv64i2p1_zve64d1p0_zvl128b1p0_zvl256b1p0_zvl32b1p0") == 256
    assert required_vlen(b"rv64i2p1_m2p0") == 0
