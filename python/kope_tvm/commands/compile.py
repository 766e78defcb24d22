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
from kope_tvm.errors import KopeError, UsageError

if TYPE_CHECKING:
    from kope_tvm.artifact import Artifact
    from kope_tvm.manifest import Coverage
    from kope_tvm.model import Model
    from kope_tvm.target import TargetSpec


@dataclass(frozen=True)
class Compiled:
    """What was written and how it was proved."""

    output: str
    target: str
    coverage: Coverage
    check: str
    """The comparison with the references; empty where this machine cannot run it."""


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
    artifact = compile_model(loaded, spec, work_dir)
    check = _proved(loaded, artifact, spec)
    artifact.save(output)
    return Compiled(str(output), spec.name, artifact.coverage, check)


def _proved(model: Model, artifact: Artifact, spec: TargetSpec) -> str:
    """The comparison with the references; a wrong result must not become a file."""
    if spec.rpc_key:
        return ""
    from kope_tvm.compilation import verify_model

    check = verify_model(model, artifact)
    if not check.ok:
        raise KopeError(f"{model.name}: compiled but wrong, nothing written: {check}")
    return str(check)


def _spell(done: Compiled) -> str:
    lines = [f"{done.output}: {done.coverage}"]
    lines += [f"  fell back: {name}" for name in done.coverage.fallback]
    lines += [f"  failed: {reason}" for reason in done.coverage.failed]
    lines.append(done.check or f"not checked: {done.target} is not this machine")
    return "\n".join(lines)
