# SPDX-License-Identifier: Apache-2.0
"""Scripts as experiences: gated, remembered, and carried from one compiler to the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("mlir")

from small_matmul import FUSED_INTO_THE_REDUCTION, MATMUL

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.mlir.crossing import tile_of, tile_plan
from kope_tvm.mlir.experience_file import best_recipe, configs
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.recipe import Recipe
from kope_tvm.mlir.script_proposal import ScriptProposal, Tile
from kope_tvm.mlir.script_proposers import Remembered, ScriptTrial
from kope_tvm.mlir.script_tuning import ScriptTuning
from kope_tvm.proposal import Origin, Plan, proposal_text
from kope_tvm.proposers.experience import Experience as FromExperience
from kope_tvm.seat import Seat
from kope_tvm.target import Facts, TargetSpec

HOST = TargetSpec(
    "host",
    {"kind": "llvm", "num-cores": 2},
    Facts(isa="avx512", vlen_bits=512, vector_registers=32, num_cores=2),
)
TILE = Tile(rows=8, columns=32)


@dataclass
class Scripted:
    """Proposes what it was given, once."""

    left: list[ScriptProposal] = field(default_factory=list)

    def propose(self, trials: Sequence[ScriptTrial], wanted: int) -> list[ScriptProposal]:
        return [self.left.pop(0) for _ in range(min(wanted, len(self.left)))]


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Function:
    path = tmp_path_factory.mktemp("mlir") / "matmul.mlir"
    path.write_text(MATMUL)
    return Function.of(path, HOST)


def proposal(tile: Tile = TILE) -> ScriptProposal:
    recipe = Recipe(((tile.rows, tile.columns),), ((), (0, 0, tile.depth)))
    return ScriptProposal(recipe, tile=tile, origin=Origin("scripted"))


def tuned(function: Function, memory: Memory, *given: ScriptProposal) -> list[ScriptTrial]:
    return list(ScriptTuning(function, [Scripted(list(given))], memory, "r").tune(len(given)))


def test_a_right_script_is_an_edge_of_the_memory(function: Function, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.sqlite") as memory:
        (trial,) = tuned(function, memory, proposal())
        (found,) = memory.recall(function.bench.task)
        recipe = best_recipe(function.bench.task, function.space, memory)
    assert trial.measurement.is_proven
    assert (found.experience.lane, found.experience.proposer) == ("script", "scripted")
    assert found.experience.toolchain.startswith("mlir 22.")
    assert found.experience.run_secs == trial.measurement.run_secs
    assert recipe is not None
    assert recipe == proposal().recipe
    (config,) = configs(recipe, function.space.ops).values()
    assert config.tile_sizes == ((8, 32, 0), (0, 0, 1))
    assert config.vector == (8, 32, 1)


def test_a_script_that_computes_something_else_is_refused(
    function: Function, tmp_path: Path
) -> None:
    wrong = ScriptProposal(script=FUSED_INTO_THE_REDUCTION, origin=Origin("scripted"))
    with Memory.open(tmp_path / "m.sqlite") as memory:
        (trial,) = tuned(function, memory, wrong)
    assert trial.measurement.code == "E_NUMERICS"
    assert not trial.measurement.ok


def test_a_tile_learned_through_mlir_is_proposed_to_tvm(function: Function, tmp_path: Path) -> None:
    bench = function.bench
    with Memory.open(tmp_path / "m.sqlite") as memory:
        tuned(function, memory, proposal())
        context = Context(bench.task, 1, 4, 4, 1, memory.recall(bench.task))
        proposals = FromExperience(Seat(bench, memory)).propose(context)
    plan = next(each for each in proposals if isinstance(each, Plan))
    applied = bench.apply(plan)
    assert isinstance(applied, Candidate), applied
    assert tile_of(applied, bench.mod) == TILE


def test_a_tile_learned_through_tvm_is_proposed_to_mlir(function: Function, tmp_path: Path) -> None:
    plan = tile_plan(Tile(rows=4, columns=16), function.bench.mod, Origin("scripted"))
    assert plan is not None
    with Memory.open(tmp_path / "m.sqlite") as memory:
        memory.record(through_tvm(function, plan))
        (found,) = Remembered(function, memory).propose((), 4)
        (trial,) = tuned(function, memory, found)
    assert found.recipe == Recipe(((4, 16),), ((), (0, 0, 1)))
    assert found.origin.source
    assert trial.measurement.is_proven


def through_tvm(function: Function, plan: Plan) -> Experience:
    task = function.bench.task
    applied = function.bench.apply(plan)
    assert isinstance(applied, Candidate), applied
    return Experience(
        task.key, task.name, task.features, task.target.key, applied.state, "", "plan", "",
        proposal_text(plan), "scripted", "", 1, 0, True, "", "", False, (1e-5,), 1e-4, 0.0, 0, (),
        1, "tvm", False, "r", 1.0,
    )  # fmt: skip
