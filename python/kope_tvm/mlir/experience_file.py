# SPDX-License-Identifier: Apache-2.0
"""What the pass plugin reads: the tiles of each op that there is experience with, by its key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kope_tvm.memory.experience import Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.mlir.outline import LinalgOp, Outline
from kope_tvm.mlir.recipe import Recipe, Sizes
from kope_tvm.mlir.recipe_space import RecipeSpace
from kope_tvm.mlir.script_proposal import LANE, ScriptProposal, script_proposal_from
from kope_tvm.proposal import Origin
from kope_tvm.task import Task

VERSION = 1
"""`passes/mlir/experience_file.cc` reads this one."""


@dataclass(frozen=True)
class Config:
    """One op's tiles, as the attribute `kope.config` holds them."""

    tile_sizes: tuple[Sizes, ...]
    """The outermost level first, one size a dimension."""
    vector: Sizes
    """The shape of the innermost tile."""


def best_recipe(task: Task, space: RecipeSpace, memory: Memory) -> Recipe | None:
    """The fastest recipe on record for this very function here; None where there is none."""
    right = [one for one in memory.recall(task, limit=64) if _is_own(one, task)]
    for one in sorted(right, key=lambda each: -each.value):
        proposal = _read(one)
        recipe = proposal.recipe if proposal is not None else None
        if recipe is not None and recipe.fuse_elementwise is space.is_fused:
            return recipe
    return None


def configs(recipe: Recipe, ops: Outline) -> Mapping[str, Config]:
    """What a recipe says of each op that it makes loops of, by structural key.

    Ops that only came along with the last one are left to fusion, and not named.
    """
    return dict(_configs(recipe, ops))


def experience_text(found: Mapping[str, Config]) -> str:
    """The file."""
    ops = {
        key: {"tile_sizes": config.tile_sizes, "vector": config.vector}
        for key, config in found.items()
    }
    return json.dumps({"version": VERSION, "ops": ops}, indent=1) + "\n"


def _configs(recipe: Recipe, ops: Outline) -> Iterator[tuple[str, Config]]:
    for number, op in enumerate(ops.fed):
        inner = recipe.inner[number] if number < len(recipe.inner) else ()
        if op.is_fill or not (any(inner) or op is ops.last):
            continue
        levels = [_onto(op, ops.last, sizes) for sizes in recipe.outer]
        levels += [_padded(inner, op)] if any(inner) else []
        yield op.key, Config(tuple(levels), _vector(op, levels))


def _onto(op: LinalgOp, last: LinalgOp, sizes: Sizes) -> Sizes:
    """The last op's tile on another's dimensions: their parallel ones are the same."""
    tile = dict(zip(last.parallel, (_padded(sizes, last)[at] for at in last.parallel), strict=True))
    own = dict(zip(op.parallel, tile.values(), strict=False))
    return tuple(own.get(at, 0) for at in range(len(op.extents)))


def _padded(sizes: Sizes, op: LinalgOp) -> Sizes:
    return (*sizes, *[0] * (len(op.extents) - len(sizes)))


def _vector(op: LinalgOp, levels: list[Sizes]) -> Sizes:
    shape = list(op.extents)
    for sizes in levels:
        shape = [size or whole for size, whole in zip(sizes, shape, strict=True)]
    return tuple(shape)


def _is_own(one: Recalled, task: Task) -> bool:
    source = one.experience
    is_right = source.accepted and not source.code and not source.suspicious
    is_here = source.machine_key == task.target.key and source.task_key == task.key
    return is_right and is_here and source.lane == LANE


def _read(one: Recalled) -> ScriptProposal | None:
    try:
        return script_proposal_from(one.experience.proposal, Origin("experience"))
    except ValueError:  # Written by a newer kope, or damaged.
        return None
