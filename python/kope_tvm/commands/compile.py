# SPDX-License-Identifier: Apache-2.0
"""`kope compile`: apply what a work_dir learned, prove the result, write one shared object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kope_tvm.commands.tune import parse_dims
from kope_tvm.console import json_option, show, work
from kope_tvm.errors import UsageError

if TYPE_CHECKING:
    from kope_tvm.manifest import Coverage
    from kope_tvm.performance import Comparison


@dataclass(frozen=True)
class Compiled:
    """What was written and how it was proved."""

    output: str
    target: str
    coverage: Coverage
    check: str
    """The comparison with the references; empty where this machine cannot run it."""
    beside_untuned: Comparison | None
    """The whole model beside its untuned build; None where it is that, or cannot be run."""


@click.command("compile", short_help="Compile with what was learned.")
@click.argument("model")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--work-dir", required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Bind a dynamic dimension.")
@json_option
def command(
    model: str, target: str, work_dir: Path, output: Path, dims: Sequence[str], as_json: bool
) -> None:
    """Compile MODEL with what WORK_DIR has learned into a shared object."""
    bound = parse_dims(dims)
    _check_folders(work_dir, output)
    with work(as_json=as_json):
        done = _compile(model, target, work_dir, output, bound)
    show(done, _spell(done), as_json=as_json)


def _check_folders(work_dir: Path, output: Path) -> None:
    if not work_dir.is_dir():
        raise UsageError(f"--work-dir {work_dir}: no such folder; `kope tune` makes it")
    if not output.parent.is_dir():
        raise UsageError(f"--output {output}: no folder {str(output.parent)!r} to write to")


def _compile(
    model: str, target: str, work_dir: Path, output: Path, dims: dict[str, int]
) -> Compiled:
    from kope_tvm.compilation import compile_model
    from kope_tvm.machine import load_target
    from kope_tvm.model import load_model

    spec = load_target(target)
    loaded = load_model(model, dims=dims)
    if spec.rpc_key:
        artifact, check, beside = compile_model(loaded, spec, work_dir), "", None
    else:
        from kope_tvm.model_gate import proved_model

        proved = proved_model(loaded, spec, work_dir)
        artifact, check, beside = proved.artifact, str(proved.check), proved.beside_untuned
    artifact.save(output)
    return Compiled(str(output), spec.name, artifact.coverage, check, beside)


def _spell(done: Compiled) -> str:
    coverage = done.coverage
    lines = [f"{done.output}: {coverage}"]
    lines += [f"  fell back: {name}" for name in coverage.fallback]
    lines += [f"  failed: {reason}" for reason in coverage.failed]
    lines.append(f"functions: {coverage.speedup}")
    if done.beside_untuned is not None:
        lines.append(f"model: {_spell_gain(done.beside_untuned)}")
    lines.append(done.check or f"not checked: {done.target} is not this machine")
    return "\n".join(lines)


def _spell_gain(found: Comparison) -> str:
    verdict = "faster" if found.faster else "NOT faster"
    return f"{found.gain:.2f}x the untuned build, {verdict} ({found.needed:.2f}x needed)"
