# SPDX-License-Identifier: Apache-2.0
"""MatMulNBits: 4 and 8 bits, zero points, block sizes, bias; weights stay packed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import MICROSOFT, Graph, constants

from kope_tvm.model import load_model

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Case:
    """One node's format."""

    depth: int = 32
    columns: int = 5
    bits: int = 4
    block: int = 32
    zero_points: str = ""  # "", "packed" or "floats"
    bias: bool = False
    rows: tuple[int, ...] = (1,)
    dtype: str = "float32"

    @property
    def num_blocks(self) -> int:
        return -(-self.depth // self.block)


CASES = (
    Case(),
    Case(zero_points="packed"),
    Case(depth=96, zero_points="packed", rows=(2, 3)),
    Case(depth=96, block=16, zero_points="floats", bias=True),
    Case(depth=72, block=32),
    Case(depth=80, block=32, zero_points="packed", bias=True, rows=(4,)),
    Case(depth=128, block=128, columns=3, rows=(2,)),
    Case(bits=8, depth=64),
    Case(bits=8, depth=96, zero_points="packed", rows=(3,)),
    Case(bits=8, depth=64, block=16, bias=True),
    Case(dtype="float16", depth=64, zero_points="packed", rows=(2,)),
)


def add(graph: Graph, case: Case, number: int) -> None:
    rng = np.random.default_rng(number)
    nbytes = case.block * case.bits // 8
    blocks = (case.columns, case.num_blocks)
    points = ""
    if case.zero_points == "packed":
        shape = (case.columns, -(-case.num_blocks * case.bits // 8))
        points = graph.weight(f"zp{number}", rng.integers(0, 256, shape, np.uint8).reshape(-1))
    elif case.zero_points == "floats":
        floats = rng.uniform(0, 15, blocks).astype(case.dtype)
        points = graph.weight(f"zp{number}", floats.reshape(-1))
    bias = rng.uniform(-1, 1, case.columns).astype(case.dtype)
    inputs = [
        graph.feed(f"a{number}", rng.uniform(-1, 1, (*case.rows, case.depth)).astype(case.dtype)),
        graph.weight(f"b{number}", rng.integers(0, 256, (*blocks, nbytes), np.uint8)),
        graph.weight(f"s{number}", rng.uniform(0.1, 1, blocks).astype(case.dtype).reshape(-1)),
        points,
        "",
        graph.weight(f"bias{number}", bias) if case.bias else "",
    ]
    while not inputs[-1]:
        inputs.pop()
    sizes = {"K": case.depth, "N": case.columns, "bits": case.bits, "block_size": case.block}
    graph.node("MatMulNBits", inputs, [f"y{number}"], MICROSOFT, **sizes)


def test_every_format_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    for number, case in enumerate(CASES):
        add(graph, case, number)
    graph.check()


def test_case_a5_by_hand(tmp_path: Path) -> None:
    """Every weight is 3 above its zero point: 32 ones times 3 times the column's scale."""
    graph = Graph(tmp_path)
    scales = graph.weight("scales", np.arange(1, 6, dtype=np.float32))
    points = graph.weight("points", np.full(5, 0x02, np.uint8))
    ones = graph.feed("A", np.ones((1, 32), np.float32))
    sizes = {"K": 32, "N": 5, "bits": 4, "block_size": 32}
    for name, byte, zero_points in (("plain", 0xBB, ""), ("pointed", 0x55, points)):
        packed = graph.weight(f"B_{name}", np.full((5, 1, 16), byte, np.uint8))
        inputs = [ones, packed, scales, zero_points]
        graph.node("MatMulNBits", inputs, [name], MICROSOFT, **sizes)
    expected = [[96, 192, 288, 384, 480]]
    for name, found in graph.check().items():
        np.testing.assert_array_equal(found, np.array(expected, np.float32), err_msg=name)


def test_weights_stay_packed(tmp_path: Path) -> None:
    """Two constants, of 64 columns by 4 blocks: 16 bytes each, and a scale each."""
    graph = Graph(tmp_path)
    add(graph, Case(depth=128, columns=64), 0)
    arrays = constants(load_model(graph.save()).mod["main"])
    found = {str(array.dtype): array.shape for array in arrays}
    assert found == {"uint8": (64, 4, 16), "float32": (64, 4)}


def test_g_idx_and_two_bits_are_refused_by_name(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    packed = graph.weight("B", np.zeros((5, 1, 16), np.uint8))
    scales = graph.weight("scales", np.ones(5, np.float32))
    groups = graph.weight("groups", np.zeros(32, np.int32))
    ones = graph.feed("A", np.ones((1, 32), np.float32))
    sizes = {"K": 32, "N": 5, "block_size": 32}
    inputs = [ones, packed, scales, "", groups]
    graph.node("MatMulNBits", inputs, ["grouped"], MICROSOFT, bits=4, **sizes)
    quarter = graph.weight("B2", np.zeros((5, 1, 8), np.uint8))
    graph.node("MatMulNBits", [ones, quarter, scales], ["two"], MICROSOFT, bits=2, **sizes)
    assert graph.refusal() == (
        "com.microsoft.MatMulNBits node the_grouped: input g_idx is not supported; "
        "com.microsoft.MatMulNBits node the_two: attribute bits=2 is not supported; "
        "expected 4 or 8"
    )
