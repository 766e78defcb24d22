# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose by its phases, over a grid of shapes and attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import Graph

from kope_tvm.machine import load_target
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.onnx_ops.conv_transpose import phase_kernels

pytestmark = pytest.mark.e2e

GRID = (
    # kernel, strides, pads, output_padding
    ((2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
    ((3, 3), (1, 1), (1, 1, 1, 1), (0, 0)),
    ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
    ((3, 5), (2, 3), (0, 1, 2, 3), (1, 2)),
    ((1, 1), (2, 2), (0, 0, 0, 0), (0, 0)),
    ((2, 2), (3, 3), (0, 0, 0, 0), (0, 0)),
    ((5,), (2,), (2, 1), (1,)),
    ((8,), (4,), (2, 2), (0,)),
)


def test_every_shape_equals_onnx_runtime(tmp_path: Path) -> None:
    graph, rng = Graph(tmp_path), np.random.default_rng(5)
    for number, (kernel, strides, pads, more) in enumerate(GRID):
        shape = (2, 3, 7, 6)[: 2 + len(kernel)]
        data = graph.feed(f"x{number}", rng.standard_normal(shape).astype(np.float32))
        weight = rng.standard_normal((3, 4, *kernel)).astype(np.float32)
        names = [data, graph.weight(f"w{number}", weight)]
        if number % 2:
            names.append(graph.weight(f"b{number}", rng.standard_normal(4).astype(np.float32)))
        graph.node(
            "ConvTranspose",
            names,
            [f"y{number}"],
            strides=strides,
            pads=pads,
            output_padding=more,
        )
    graph.check()


def test_what_phases_do_not_cover_goes_tvms_way(tmp_path: Path) -> None:
    graph, rng = Graph(tmp_path), np.random.default_rng(6)

    def weight(name: str, *shape: int) -> str:
        return str(graph.weight(name, rng.standard_normal(shape).astype(np.float32)))

    data = graph.feed("x", rng.standard_normal((1, 4, 5, 5)).astype(np.float32))
    graph.node("ConvTranspose", [data, weight("g", 4, 2, 3, 3)], ["grouped"], group=2)
    graph.node("ConvTranspose", [data, weight("v", 4, 2, 2, 2)], ["same"], auto_pad="VALID")
    fed = graph.feed("w", rng.standard_normal((4, 2, 2, 2)).astype(np.float32))
    graph.node("ConvTranspose", [data, fed], ["weights_come_late"], strides=(2, 2))
    graph.check()


def test_a_kernel_as_long_as_the_stride_is_one_tap_a_phase() -> None:
    weight = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    assert phase_kernels(weight, (2, 2))[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_phase_has_every_other_tap_the_last_first() -> None:
    weight = np.array([[[1, 2, 3, 4, 5]]], np.float32)
    assert phase_kernels(weight, (2,))[:, 0].tolist() == [[5, 3, 1], [0, 4, 2]]


def test_no_zero_is_multiplied(tmp_path: Path) -> None:
    """A stride of two in both axes takes a quarter of the multiplications of TVM's own."""
    graph = Graph(tmp_path)
    data = graph.feed("x", np.ones((1, 8, 16, 16), np.float32))
    kernel = graph.weight("w", np.ones((8, 8, 2, 2), np.float32))
    graph.node("ConvTranspose", [data, kernel], ["y"], strides=(2, 2))
    tasks = extract_tasks(load_model(graph.save()), load_target("host"))
    from kope_tvm.features import features

    flops = sum(features(mod).flops for _, mod, _ in tasks)
    assert flops == 2 * 16 * 16 * 8 * 8 * 2 * 2
