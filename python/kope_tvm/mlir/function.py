# SPDX-License-Identifier: Apache-2.0
"""One function of linalg as both compilers see it: a task, its proof, and its recipes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kope_tvm.errors import ModelError
from kope_tvm.extraction import extract_tasks
from kope_tvm.mlir.argument_types import argument_types
from kope_tvm.mlir.proof import Proof
from kope_tvm.mlir.recipe_space import RecipeSpace
from kope_tvm.mlir.script_proposal import ScriptProposal
from kope_tvm.mlir.transform_script import script_of
from kope_tvm.model import load_model
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.workbench import Workbench, make_task


@dataclass(frozen=True)
class Function:
    """The only function of an MLIR file."""

    text: str
    bench: Workbench
    space: RecipeSpace
    proof: Proof

    @classmethod
    def of(cls, path: Path, target: TargetSpec) -> Function:
        """Read it, and run its default lowering; raises ModelError where it is not one function."""
        bench = Workbench(task_of(path, target))
        text = path.read_text(encoding="utf-8")
        space = RecipeSpace(text, str(path), target.facts)
        proof = Proof.of(text, argument_types(text, str(path)), target.limits.run_secs * 2)
        return cls(text, bench, space, proof)

    def script(self, proposal: ScriptProposal) -> str:
        """What a proposal says to MLIR; raises ValueError where it does not fit."""
        if proposal.recipe is None:
            return proposal.script
        return script_of(proposal.recipe, self.space.ops)


def task_of(path: Path, target: TargetSpec) -> Task:
    """The task of an MLIR file's only function; raises ModelError where it is not one."""
    found = extract_tasks(load_model(path), target)
    if len(found) != 1:
        raise ModelError(f"{path}: {len(found)} functions to tune; expected one")
    return make_task(found[0].name, found[0].mod, target)
