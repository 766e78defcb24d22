# SPDX-License-Identifier: Apache-2.0
"""What may be proposed for MLIR's own compiler: a recipe or a script, with who proposed it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from kope_tvm.mlir.recipe import Recipe, recipe_from
from kope_tvm.proposal import Origin

LANE = "script"
"""Of its experiences; TVM's lanes are `decisions`, `plan` and `rewrite`."""
SPACE = "mlir"


@dataclass(frozen=True)
class Tile:
    """What one innermost tile computes, in words that TVM's schedules and MLIR's scripts share."""

    rows: int
    columns: int
    """Along the lanes of vectors."""
    depth: int = 1
    """Of a reduction."""


@dataclass(frozen=True)
class ScriptProposal:
    """A recipe, from which its script follows, or a script alone."""

    recipe: Recipe | None = None
    script: str = field(default="", repr=False)
    tile: Tile | None = None
    """None where nobody knows the script's tile."""
    origin: Origin = field(default_factory=lambda: Origin("unknown"))

    def text(self) -> str:
        """As JSON, without the origin."""
        told: dict[str, object] = {"script": self.script} if self.recipe is None else {}
        if self.recipe is not None:
            told["recipe"] = json.loads(self.recipe.text())
        if self.tile is not None:
            told["tile"] = vars(self.tile)
        return json.dumps(told, separators=(",", ":"))


def script_proposal_from(text: str, origin: Origin) -> ScriptProposal:
    """What `ScriptProposal.text` wrote, or a model; raises ValueError where it is none."""
    given = json.loads(text)
    if not isinstance(given, dict) or ("recipe" in given) == ("script" in given):
        raise ValueError(f"expected a recipe or a script: {text[:80]!r}")
    tile = tile_from(given)
    if "recipe" in given:
        return ScriptProposal(recipe_from(json.dumps(given["recipe"])), tile=tile, origin=origin)
    if not isinstance(given["script"], str):
        raise ValueError(f"a script is text, not {given['script']!r}")
    return ScriptProposal(script=given["script"], tile=tile, origin=origin)


def tile_from(given: dict[str, object]) -> Tile | None:
    """The tile beside a recipe; None where there is none or it is no tile."""
    told = given.get("tile")
    if not isinstance(told, dict):
        return None
    sizes = [told.get(name, 1) for name in ("rows", "columns", "depth")]
    if not all(isinstance(each, int) and 0 < each < 1 << 20 for each in sizes):
        return None
    return Tile(*sizes)
