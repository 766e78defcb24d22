# SPDX-License-Identifier: Apache-2.0
"""Schedules of TIR said over the linalg that the TIR became: applied, run and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlir")

from tvm import IRModule
from tvm.s_tir import Schedule

from kope_tvm.bench.mlir import MODULES
from kope_tvm.errors import KopeError
from kope_tvm.machine import load_target
from kope_tvm.mlir.execution import run
from kope_tvm.mlir.exporting import (
    Header,
    Scheduled,
    TransformScript,
    applied,
    distance,
    right_script,
)
from kope_tvm.mlir.importing import import_text
from kope_tvm.mlir.tir_linalg import said_function
from kope_tvm.model import load_model

Schedules = Callable[[Schedule], None]


def scheduled(spec: str, schedule: Schedules) -> Scheduled:
    """An operator, its linalg, and what a schedule makes of it."""
    func = load_model(spec).mod["main"]
    sch = Schedule(IRModule({"main": func}))
    schedule(sch)
    said = said_function("main", func)
    return Scheduled("main", said.text, said.sources, func, sch.mod["main"], "plan")


def tile(sch: Schedule, block: str, rows: int, columns: int) -> None:
    """Tile the first two loops of a block, whatever it reduces around the tile, and vectors in it."""
    found = sch.get_sblock(block)
    row, column, *reduced = sch.get_loops(found)
    row_out, row_in = sch.split(row, [None, rows])
    column_out, column_in = sch.split(column, [None, columns])
    sch.reorder(row_out, column_out, *reduced, row_in, column_in)
    sch.vectorize(column_in)
    if reduced:
        sch.decompose_reduction(found, reduced[0])


def matmul(sch: Schedule) -> None:
    tile(sch, "matmul", 2, 8)


def relu(sch: Schedule) -> None:
    tile(sch, "compute", 2, 8)


def uneven(sch: Schedule) -> None:
    tile(sch, "matmul", 3, 8)


def gelu(sch: Schedule) -> None:
    """All but the last block where they are used."""
    *first, last = sch.get_child_blocks(sch.get_sblock("root"))
    for block in reversed(first):
        sch.compute_inline(block)
    row, column = sch.get_loops(last)
    sch.parallel(row)
    sch.vectorize(sch.split(column, [None, 8])[1])


def partial_sums(sch: Schedule) -> None:
    """The rows' sums in eight parts each, joined at the end."""
    block = sch.get_sblock("X_red")
    (_, column) = sch.get_loops(block)
    _, lanes = sch.split(column, [None, 8])
    sch.rfactor(lanes, 1)


def unrolled(sch: Schedule) -> None:
    """Four rows at a time, one after another, each in more vectors than are kept in flight."""
    row, column = sch.get_loops(sch.get_sblock("compute"))
    sch.unroll(sch.split(row, [None, 4])[1])
    sch.vectorize(sch.split(column, [None, 16])[1])


def packed(sch: Schedule) -> None:
    """A panel of the second operand, copied for all rows; sixteen rows go four at a time."""
    block = sch.get_sblock("matmul")
    row, column, k = sch.get_loops(block)
    row_out, row_in = sch.split(row, [None, 4])
    column_out, column_in = sch.split(column, [None, 16])
    sch.reorder(column_out, row_out, k, row_in, column_in)
    copy = sch.cache_read(block, 1, "global")
    sch.compute_at(copy, column_out)
    sch.vectorize(column_in)
    sch.decompose_reduction(block, k)


def script_of(one: Scheduled) -> TransformScript:
    return right_script([one], Header("x.mlir", load_target("x86-avx512"), ("main",)))


def check(spec: str, one: Scheduled, script: str) -> None:
    """With the script and without it, the same comes out."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(each.shape).astype(np.float32) for each in load_model(spec).inputs
    ]
    (plain,) = run(one.text, arrays)
    (found,) = run(one.text, arrays, script=script)
    assert distance(plain, found) < 1e-5


@pytest.mark.parametrize(
    ("spec", "schedule", "told"),
    [
        ("op:matmul:m=16,n=32,k=64", matmul, "tile_sizes [2, "),
        ("op:relu:m=16,n=32", relu, "tile_sizes [2, "),
        ("op:matmul:m=16,n=36,k=8", uneven, "vector_sizes [3, "),
        ("op:matmul:m=16,n=36,k=64", uneven, "vector_sizes [3, "),
        ("op:gelu:m=16,n=64", gelu, "attributes{kope.compute}"),
        ("op:relu:m=16,n=512", unrolled, "{factor = 4}"),
        ("op:reduce_sum:m=16,n=64", partial_sums, "by tile_sizes = [0, 8]"),
    ],
    ids=["matmul", "relu", "uneven", "uneven in a loop", "gelu", "unrolled", "partial sums"],
)
def test_a_schedule_is_said_with_its_vectors(spec: str, schedule: Schedules, told: str) -> None:
    one = scheduled(spec, schedule)
    found = script_of(one)
    assert told in found.text
    assert (found.functions, found.left_out) == (("main",), ())
    check(spec, one, found.text)


@pytest.mark.parametrize(
    ("rows", "panels"), [(16, 4), (8, 0)], ids=["four uses of a panel", "two do not pay"]
)
def test_a_packed_operand_is_copied_where_the_schedule_copies_it(rows: int, panels: int) -> None:
    spec = f"op:matmul:m={rows},n=64,k=32"
    one = scheduled(spec, packed)
    found = script_of(one)
    assert ("transform.structured.hoist_pad" in found.text) is bool(panels)
    assert len(found.left_out) == (0 if panels else 1)
    text = applied(one.text, found.text, "x.mlir")
    assert ("tensor<?x1x16xf32>" in text) is bool(panels)  # By rows of the second operand.
    check(spec, one, found.text)


def test_a_schedule_of_a_padded_convolution_applies_in_one_tile_of_the_pad() -> None:
    """Tiled along two dimensions, a pad's stores end MLIR 22."""
    text = (MODULES / "conv2d_nhwc.mlir").read_text()
    imported = import_text(text, "conv2d_nhwc.mlir")
    func = imported.mod["conv2d_nhwc"]
    sch = Schedule(IRModule({"main": func}))
    pad, *_ = sch.get_child_blocks(sch.get_sblock("root"))
    sch.parallel(sch.get_loops(pad)[1])
    tuned = sch.mod["main"]
    sources = imported.sources["conv2d_nhwc"]
    found = script_of(Scheduled("conv2d_nhwc", text, sources, func, tuned, "plan"))
    assert float(found.checked.split()[2]) < 1e-5
    pads = found.text[: found.text.index("kope.conv_2d_nhwc_hwcf}")]
    assert pads.count("transform.structured.fuse") == 1


@pytest.mark.parametrize("name", ["conv", "depthwise"])
def test_windows_that_a_tile_does_not_divide_are_padded(name: str) -> None:
    text = (Path(__file__).parent / "windows.mlir").read_text()
    imported = import_text(text, "windows.mlir")
    func = imported.mod[name]
    sch = Schedule(IRModule({"main": func}))
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    batch, row, column, channel, *reduced = sch.get_loops(block)
    outer, inner = sch.split(column, [None, 4])
    sch.reorder(batch, row, outer, *reduced, inner, channel)
    sch.vectorize(channel)
    sch.decompose_reduction(block, reduced[0])
    tuned = sch.mod["main"]
    found = script_of(Scheduled(name, text, imported.sources[name], func, tuned, "plan"))
    assert "transform.structured.pad_tiling_interface" in found.text
    assert found.left_out == ()
    assert float(found.checked.split()[2]) < 1e-5


def test_sums_stay_in_vectors_around_a_loop() -> None:
    one = scheduled("op:matmul:m=16,n=32,k=64", matmul)
    text = applied(one.text, script_of(one).text, "x.mlir")
    innermost = text[text.rindex("scf.for") :]
    body = innermost[: innermost.index("scf.yield")]
    assert "iter_args" in body.splitlines()[0]
    assert "vector<" in body.splitlines()[0]
    assert "vector.transfer_write" not in body


def test_an_unrolled_loop_is_gone() -> None:
    one = scheduled("op:relu:m=16,n=512", unrolled)
    text = applied(one.text, script_of(one).text, "x.mlir")
    assert text.count("scf.for") == 1 + 4


def test_a_rewrite_is_no_schedule_of_the_file() -> None:
    one = replace(scheduled("op:relu:m=16,n=32", relu), lane="rewrite")
    with pytest.raises(KopeError, match="main: it was written anew"):
        script_of(one)
