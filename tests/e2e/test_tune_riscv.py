# SPDX-License-Identifier: Apache-2.0
"""`kope tune` without a board: its winner is right at every vector length it was built for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kope_tvm.cli import main
from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.emulator import find_emulator
from kope_tvm.device.program.link import Program
from kope_tvm.device.spike.emulator import spike
from kope_tvm.device.spike.right import Word, right_at
from kope_tvm.errors import KopeError
from kope_tvm.learned import Learned
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.operators import parse_operator

pytestmark = [pytest.mark.device, pytest.mark.e2e, pytest.mark.slow]

try:
    find_emulator()
    find_cross_compiler()
    spike()
except KopeError as missing:
    pytest.skip(str(missing), allow_module_level=True)

MATMUL = "op:matmul:m=64,n=64,k=64,dtype=float32"
EVERYWHERE = {128: Word.RIGHT, 256: Word.RIGHT, 512: Word.RIGHT, 1024: Word.RIGHT}


@pytest.mark.parametrize(
    ("target", "expected"),
    [("spacemit-k1", EVERYWHERE | {128: Word.REFUSED}), ("generic-rv64gcv", EVERYWHERE)],
)
def test_winner_is_right_where_it_may_run(
    target: str, expected: dict[int, Word], tmp_path: Path
) -> None:
    work_dir = tmp_path / "work"
    arguments = ["--target", target, "--work-dir", str(work_dir), "--trials", "4", "--seed", "1"]
    memory = ["--memory", str(tmp_path / "memory.sqlite"), "--proposer", "experience"]
    done = CliRunner().invoke(main, ["tune", MATMUL, *arguments, *memory])
    assert done.exit_code == 0, done.output
    assert "simulated, uncalibrated" in done.output
    program, wanted = _winner(target, work_dir)
    found = right_at(program, [wanted], tuple(expected))
    assert {each.vlen_bits: each.word for each in found} == expected


def _winner(target: str, work_dir: Path) -> tuple[Program, np.ndarray]:
    spec, bound = load_target(target), parse_operator(MATMUL)
    machine = tvm_target(spec)
    applied, coverage = Learned.open(work_dir, machine).apply(bound.tir())
    assert len(coverage.hit) == 1, coverage
    rng = np.random.default_rng(3)
    feeds = [rng.uniform(-1, 1, each.shape).astype(each.dtype) for each in bound.inputs]
    wanted = np.asarray(bound.reference(*(feed.astype("float64") for feed in feeds)), "float32")
    arguments = (*feeds, np.full_like(wanted, 77))
    written = (*(False for _ in feeds), True)
    return Program(object_bytes(applied, machine), arguments, written, spec.facts.num_cores), wanted
