# SPDX-License-Identifier: Apache-2.0
"""What was learned on a K1 (VLEN 256) proposes on a K3: 256 out of order, and 1024."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.emulator import find_emulator
from kope_tvm.device.program.link import Array, Program
from kope_tvm.device.spike.emulator import spike
from kope_tvm.device.spike.right import VLENS, Word, right_at
from kope_tvm.errors import KopeError
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.rows import experience_key
from kope_tvm.operators import parse_operator
from kope_tvm.proposal import Proposal
from kope_tvm.proposers.experience import Experience as Proposer
from kope_tvm.relative.wording import told
from kope_tvm.seat import Seat
from kope_tvm.target import TargetSpec
from kope_tvm.tuning import tune
from kope_tvm.workbench import Workbench, make_task, proposal_of

pytestmark = [pytest.mark.device, pytest.mark.slow]

try:
    find_emulator()
    find_cross_compiler()
    spike()
except KopeError as missing:
    pytest.skip(str(missing), allow_module_level=True)

MATMUL = "op:matmul:m=16,n=512,k=32,dtype=float32"
K1, X100, A100 = (load_target(f"spacemit-{name}") for name in ("k1", "k3-x100", "k3-a100"))


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Of two trials on a K1, then two on the K3's A100 cores, on simulated boards."""
    folder = tmp_path_factory.mktemp("transfer")
    for spec in (K1, A100):
        tune(
            parse_operator(MATMUL).tir(),
            spec,
            folder / spec.name,
            2,
            proposer="experience",
            memory=str(folder / "memory.sqlite"),
            seed=1,
        )
    opened = Memory.open(folder / "memory.sqlite")
    yield opened
    opened.close()


def _made_on(memory: Memory, spec: TargetSpec) -> list[Experience]:
    return [one for one in memory.store.experiences() if one.machine_key == spec.key]


def _bench(spec: TargetSpec) -> Workbench:
    return Workbench(make_task("main", parse_operator(MATMUL).tir(), spec))


def _applied(bench: Workbench, proposal: Proposal) -> Candidate:
    candidate = bench.apply(proposal)
    assert isinstance(candidate, Candidate), candidate
    return candidate


def _lanes(candidate: Candidate) -> int:
    """The widest loop that the schedule vectorises."""
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(candidate.sch.mod["main"].body, [(tirx.For, found.append)], order="pre")
    return max(int(loop.extent) for loop in found if loop.kind == tirx.ForKind.VECTORIZED)


def _program(candidate: Candidate, spec: TargetSpec) -> tuple[Program, Array]:
    bound, rng = parse_operator(MATMUL), np.random.default_rng(3)
    feeds = [rng.uniform(0.5, 2.0, each.shape).astype(each.dtype) for each in bound.inputs]
    wanted = np.asarray(bound.reference(*feeds))
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "function.o"
        tvm.compile(candidate.sch.mod, target=tvm_target(spec)).mod.write_to_file(str(made), "o")
        arguments = (*feeds, np.full_like(wanted, 77))
        program = Program(made.read_bytes(), arguments, (False, False, True), 8)
    return program, wanted


def _carried(memory: Memory, spec: TargetSpec) -> list[Proposal]:
    """What the first round on a machine proposes out of what the K1 taught."""
    bench = _bench(spec)
    recalled = memory.recall(bench.task)
    from_k1 = tuple(one for one in recalled if one.experience.machine_key == K1.key)
    context = Context(bench.task, 1, num_wanted=4, trials_left=4, seed=1, recalled=from_k1)
    return [one for one in Proposer(Seat(bench, memory)).propose(context) if one.origin.relative]


def test_the_first_round_of_1024_bits_measures_what_256_taught(memory: Memory) -> None:
    learned = {experience_key(one): one for one in _made_on(memory, K1)}
    first = [one for one in _made_on(memory, A100) if one.round_no == 1 and one.source]
    assert first
    for experience in first:
        taught = learned[experience.source]
        before = _applied(_bench(K1), proposal_of(taught))
        after = _applied(_bench(A100), proposal_of(experience))
        assert _lanes(after) == 4 * _lanes(before)
        assert told(experience.relative).endswith(" vlen")
        assert experience.run_secs
        assert experience.simulated


def test_it_is_right_at_1024_and_refused_below(memory: Memory) -> None:
    proposals = _carried(memory, A100)
    assert proposals
    for proposal in proposals:
        candidate = _applied(_bench(A100), proposal)
        program, wanted = _program(candidate, A100)
        found = {each.vlen_bits: each.word for each in right_at(program, (wanted,))}
        assert found == {each: Word.RIGHT if each == 1024 else Word.REFUSED for each in VLENS}


def test_out_of_order_at_256_bits_the_vectors_stay_as_wide(memory: Memory) -> None:
    learned = {experience_key(one): one for one in _made_on(memory, K1)}
    proposals = _carried(memory, X100)
    assert proposals
    for proposal in proposals:
        taught = _applied(_bench(K1), proposal_of(learned[proposal.origin.source]))
        candidate = _applied(_bench(X100), proposal)
        assert _lanes(candidate) == _lanes(taught)
    program, wanted = _program(candidate, X100)
    assert [each.word for each in right_at(program, (wanted,), (256, 1024))] == [Word.RIGHT] * 2
