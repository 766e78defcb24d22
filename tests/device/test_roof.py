# SPDX-License-Identifier: Apache-2.0
"""The roof of this machine, measured by the pool, and kernels that must stay under it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tvm import te, tirx

from kope_tvm.extraction import as_task_module
from kope_tvm.features import features
from kope_tvm.feedback.rates import Rates
from kope_tvm.feedback.roof import Roof, kept_roof, measured_roof
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.schedules.matmul_x86 import schedule
from kope_tvm.toolchain import toolchain

HOST = load_target("host")
SLACK = 1.05


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(HOST, MeasureConfig(repeat=20, min_repeat_ms=2), logging.getLogger(__name__)) as it:
        yield it


@pytest.fixture(scope="module")
def roof(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Roof:
    return measured_roof(pool, HOST, tmp_path_factory.mktemp("roof"))


def _known() -> Roof:
    rates = Rates({"float32": 1e9}, ((0, 2e9), (4096, 1e9)))
    return Roof(HOST.key, toolchain(), rates, rates, 1e-6)


def _product(m: int, n: int, k: int) -> tirx.PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return as_task_module(te.create_prim_func([a, b, c]))["main"]


def test_rates_are_those_of_a_real_machine(roof: Roof) -> None:
    one, all_cores = roof.one_core.flops_per_sec, roof.all_cores.flops_per_sec
    if not roof.is_settled:
        pytest.skip("the machine is too busy to measure all rates")
    assert one["float32"] > 1e8
    assert all_cores["float32"] <= HOST.facts.num_cores * one["float32"] * SLACK
    assert all_cores["float16"] >= all_cores["float32"]
    for rates in (roof.one_core, roof.all_cores):
        footprints = [least for least, _ in rates.bandwidths]
        bandwidths = [rate for _, rate in rates.bandwidths]
        assert footprints == sorted(footprints)
        assert bandwidths == sorted(bandwidths, reverse=True)
    assert 0 <= roof.launch_secs < 1e-2


@pytest.mark.skipif(HOST.facts.isa not in ("avx512", "avx2"), reason="the rule is of x86")
@pytest.mark.parametrize("size", [(512, 512, 512), (128, 256, 64), (81, 41, 19)])
def test_no_product_is_faster_than_the_roof(
    pool: Pool, roof: Roof, size: tuple[int, int, int]
) -> None:
    func = _product(*size)
    with tvm_target(HOST):
        mods = [sch.mod for sch in schedule(func, HOST)]
    measured = [measurement for _, measurement in pool.measure(mods)]
    fastest = min(min(each.run_secs) for each in measured if each.ok)
    assert roof.secs(features(func)) <= fastest * SLACK


def test_a_sum_of_rows_is_bound_by_its_bytes(pool: Pool, roof: Roof) -> None:
    a, r = te.placeholder((512, 1024), name="a"), te.reduce_axis((0, 1024), name="r")
    b = te.compute((512,), lambda i: te.sum(a[i, r], axis=r), name="b")
    func = as_task_module(te.create_prim_func([a, b]))["main"]
    [(_, measurement)] = pool.measure([as_task_module(func)])
    bound = roof.secs(features(func))
    assert bound <= min(measurement.run_secs) * SLACK
    assert bound > 0 or not roof.is_settled


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    kept_roof(_known(), HOST, tmp_path)
    assert measured_roof(_unusable(), HOST, tmp_path) == _known()


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"toolchain": "tvm 0.1"},
        {"machine_key": "x"},
        {"one_core": None},
        {"at": "now", "is_settled": False},
    ],
)
def test_what_does_not_fit_is_measured_anew(tmp_path: Path, change: dict[str, object]) -> None:
    kept_roof(_known(), HOST, tmp_path)
    [path] = tmp_path.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(_MeasuredError):
        measured_roof(_unusable(), HOST, tmp_path)


def test_what_did_not_settle_holds_for_an_hour(tmp_path: Path) -> None:
    unsettled = replace(_known(), is_settled=False)
    kept_roof(unsettled, HOST, tmp_path)
    assert measured_roof(_unusable(), HOST, tmp_path) == unsettled
    [path] = tmp_path.iterdir()
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "at": data["at"] - 3601}))
    with pytest.raises(_MeasuredError):
        measured_roof(_unusable(), HOST, tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}'])
def test_a_damaged_file_is_measured_anew(tmp_path: Path, text: str) -> None:
    kept_roof(_known(), HOST, tmp_path)
    [path] = tmp_path.iterdir()
    path.write_text(text)
    with pytest.raises(_MeasuredError):
        measured_roof(_unusable(), HOST, tmp_path)


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    kept_roof(_known(), HOST, file)
    assert file.read_bytes() == b""


def test_nothing_is_known_of_a_machine_that_is_no_cpu(tmp_path: Path) -> None:
    gpu = replace(HOST, tvm_target={"kind": "cuda"})
    assert measured_roof(_unusable(), gpu, tmp_path) == Roof(gpu.key, toolchain())
    assert not list(tmp_path.iterdir())


class _MeasuredError(Exception):
    """A pool was asked that should not have been."""


class _Unusable(Pool):
    def measure(self, *args: object, **options: object) -> Iterator[tuple[int, object]]:  # type: ignore[override]
        raise _MeasuredError


def _unusable() -> Pool:
    return _Unusable(HOST, MeasureConfig(), logging.getLogger(__name__))
