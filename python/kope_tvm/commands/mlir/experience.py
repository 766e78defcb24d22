# SPDX-License-Identifier: Apache-2.0
"""`kope mlir experience`: what the pass plugin annotates linalg ops with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.opened_memory import memory_option, open_memory


@click.command("experience", short_help="Write what `-kope-annotate` reads.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--target", default="host", show_default=True, metavar="NAME")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
@memory_option
@json_option
def command(
    files: Sequence[Path], target: str, output: Path, memory: str | None, as_json: bool
) -> None:
    """Write the remembered tiles of the ops in FILES, one function a file, as JSON."""
    from kope_tvm.machine import load_target
    from kope_tvm.mlir.experience_file import Config, best_recipe, configs, experience_text
    from kope_tvm.mlir.function import task_of
    from kope_tvm.mlir.recipe_space import RecipeSpace

    found: dict[str, Config] = {}
    unknown: list[str] = []
    spec = load_target(target)
    with work(as_json=as_json), open_memory(memory) as opened:
        for file in files:
            task = task_of(file, spec)
            space = RecipeSpace(file.read_text(encoding="utf-8"), str(file), spec.facts)
            recipe = best_recipe(task, space, opened)
            if recipe is None:
                unknown.append(str(file))
            else:
                found.update(configs(recipe, space.ops))
    output.write_text(experience_text(found), encoding="utf-8")
    told = {"file": str(output), "ops": sorted(found), "unknown": unknown}
    text = f"{output}: {len(found)} ops"
    if unknown:
        text += f"; no script on record for {', '.join(unknown)}: kope mlir script tunes one"
    show(told, text, as_json=as_json)
