# SPDX-License-Identifier: Apache-2.0
"""`kope run`: call a compiled model once, time it, and say where the time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.errors import UsageError
from kope_tvm.progress import spell_secs

if TYPE_CHECKING:
    import numpy as np

    from kope_tvm.artifact import Artifact, OpTime
    from kope_tvm.manifest import FunctionFacts, MadeBy

_SEED = 0
_VM = "vm.builtin."
"""How the names of Relax's own functions begin."""


@dataclass(frozen=True)
class Output:
    """One result, summed up."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    smallest: float
    mean: float
    largest: float


@dataclass(frozen=True)
class ProfiledFunction:
    """One function's part of a call."""

    name: str
    kind: str
    """What made it: a lane, `untuned`, `library` or `vm`."""
    calls: int
    secs: float
    share: float
    """Of the time in all functions."""
    gflops: float
    """Billions of operations a second; 0 where it does none that are known."""
    roof_share: float
    """Of the speed that this machine allows; 0 where that is unknown."""


@dataclass(frozen=True)
class Call:
    """What one call gave and took."""

    run_secs: tuple[float, ...]
    outputs: tuple[Output, ...]
    random_inputs: tuple[str, ...]
    """Inputs that were not given."""
    profile: tuple[ProfiledFunction, ...]
    made_by: MadeBy


@click.command("run", short_help="Run a compiled model.")
@click.argument("artifact", type=click.Path(path_type=Path), metavar="OUT.so")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy")
@click.option("--profile", is_flag=True, help="Time every function.")
@json_option
def command(artifact: Path, inputs: Sequence[str], profile: bool, as_json: bool) -> None:
    """Run a file that `kope compile` wrote; inputs not given are random."""
    with work(as_json=as_json):
        call = _run(artifact, inputs, profile=profile)
    show(call, _spell(call), as_json=as_json)


def _run(path: Path, inputs: Sequence[str], *, profile: bool) -> Call:
    if not path.is_file():
        raise UsageError(f"{path}: no such file; `kope compile ... -o {path}` writes it")
    from kope_tvm.artifact import Artifact
    from kope_tvm.comparison import random_inputs

    artifact = Artifact.load(path)
    given = _arrays(inputs, artifact)
    feed = {**random_inputs(artifact.inputs, _SEED), **given}
    results = artifact.run(feed)
    missing = tuple(spec.name for spec in artifact.inputs if spec.name not in given)
    return Call(
        run_secs=artifact.time(feed),
        outputs=tuple(
            _summed_up(spec.name, array)
            for spec, array in zip(artifact.outputs, results, strict=True)
        ),
        random_inputs=missing,
        profile=_profiled(artifact, feed) if profile else (),
        made_by=artifact.manifest.made_by,
    )


def _profiled(artifact: Artifact, feed: Mapping[str, np.ndarray]) -> tuple[ProfiledFunction, ...]:
    """Time beside what the manifest says of each function."""
    times = artifact.profile(feed)
    total = sum(each.secs for each in times) or 1.0
    known = {each.name: each for each in artifact.manifest.made_by.functions}
    return tuple(_beside_facts(each, known.get(each.name), total) for each in times)


def _beside_facts(time: OpTime, facts: FunctionFacts | None, total: float) -> ProfiledFunction:
    share = time.secs / total
    if facts is None:
        kind = "vm" if time.name.startswith(_VM) else "library"
        return ProfiledFunction(time.name, kind, time.calls, time.secs, share, 0.0, 0.0)
    each = time.secs / time.calls or 1e-12
    kind = facts.lane or "untuned"
    speeds = (facts.flops / each / 1e9, facts.roof_secs / each)
    return ProfiledFunction(time.name, kind, time.calls, time.secs, share, *speeds)


def _arrays(inputs: Sequence[str], artifact: Artifact) -> Mapping[str, np.ndarray]:
    import numpy as np

    known = [spec.name for spec in artifact.inputs]
    arrays: dict[str, np.ndarray] = {}
    for each in inputs:
        name, equals, file = each.partition("=")
        if not equals or name not in known:
            raise UsageError(f"--input {each!r}: expected NAME=FILE.npy, NAME one of {known}")
        try:
            arrays[name] = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"--input {each!r}: not a readable .npy file: {error}") from error
    return arrays


def _summed_up(name: str, array: np.ndarray) -> Output:
    import numpy as np

    shape, dtype = tuple(array.shape), str(array.dtype)
    if not array.size:
        return Output(name, shape, dtype, 0.0, 0.0, 0.0)
    wide = array.astype(np.float64)
    return Output(name, shape, dtype, float(wide.min()), float(wide.mean()), float(wide.max()))


def _spell(call: Call) -> str:
    rows = [
        (one.name, list(one.shape), one.dtype, *map(_number, (one.smallest, one.mean, one.largest)))
        for one in call.outputs
    ]
    lines = [table(("OUTPUT", "SHAPE", "DTYPE", "MIN", "MEAN", "MAX"), rows)]
    if call.random_inputs:
        lines.append(f"random inputs: {', '.join(call.random_inputs)}")
    lines.append(f"{spell_secs(median(call.run_secs))} a call")
    if call.profile:
        lines.append(table(_PROFILE, [_profile_row(one) for one in call.profile]))
        lines += _spell_made_by(call.made_by)
    return "\n".join(lines)


_PROFILE = ("FUNCTION", "CALLS", "TIME", "SHARE", "GFLOP/S", "OF ROOF", "BY")


def _profile_row(one: ProfiledFunction) -> tuple[object, ...]:
    gflops = f"{one.gflops:.3g}" if one.gflops else "-"
    roof = f"{one.roof_share:.0%}" if one.roof_share else "-"
    time = spell_secs(one.secs)
    return (one.name, one.calls, time, f"{one.share:.1%}", gflops, roof, one.kind)


def _spell_made_by(made_by: MadeBy) -> list[str]:
    lines = [f"made by: {made_by.versions}"] if made_by.versions else []
    return lines + [f"passed: {gate}" for gate in made_by.gates]


def _number(value: float) -> str:
    return f"{value:.6g}"
