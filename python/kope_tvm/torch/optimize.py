# SPDX-License-Identifier: Apache-2.0
"""Tune the parts of a torch module, and use those that are right and faster than torch's."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tvm import IRModule, relax

from kope_tvm.errors import KopeError, ModelError, UsageError
from kope_tvm.machine import load_target
from kope_tvm.memory.location import default_path
from kope_tvm.schedule_error import TVM_ERRORS, first_line
from kope_tvm.target import TargetSpec
from kope_tvm.torch.contest import contest
from kope_tvm.torch.kernel import Kernel, compiled, imported, place
from kope_tvm.torch.optimized import Flat, Optimized, Part
from kope_tvm.torch.split import Piece, Split, split
from kope_tvm.tuning import tune

_GPUS = ("h200", "h100", "a100")


def optimize(
    module: Any,
    example: tuple[Any, ...],
    *,
    target: str | TargetSpec | None = None,
    work_dir: str | Path | None = None,
    trials: int = 32,
    **options: Any,
) -> Optimized:
    """Make `module`, called with tensors like `example`, faster where TVM can.

    It is put into eval mode, and stays there.
    `target` is by default the machine that the example's tensors are on, `work_dir` a folder of
    the module's own in the user's data folder: the same call again measures nothing anew.
    `trials` are for each function that no earlier call settled; `options` are those of
    `kope_tvm.tune`. Raises ModelError where torch cannot export the module, UsageError where the
    example holds anything but tensors.
    """
    example = example if isinstance(example, tuple) else (example,)
    _refuse_others(example)
    with warnings.catch_warnings():
        # torch copies its own deprecated tree specifications
        warnings.simplefilter("ignore", FutureWarning)
        return _optimized(module, example, target, work_dir, trials, options)


def _optimized(
    module: Any,
    example: tuple[Any, ...],
    target: str | TargetSpec | None,
    work_dir: str | Path | None,
    trials: int,
    options: Mapping[str, Any],
) -> Optimized:
    parts = split(module, example)
    spec = target if isinstance(target, TargetSpec) else load_target(target or _machine(example))
    folder = Path(work_dir) if work_dir is not None else _own_folder(parts, spec)
    found = [_import(piece) for piece in parts.pieces]
    functions = [one.function for one in found if one.function is not None]
    if trials and functions:
        most = trials * len(functions)
        tune(_together(functions), spec, folder, most, max_trials_per_task=trials, **options)
    return _Choice(module, parts, spec, str(folder)).optimized(found)


def _refuse_others(example: tuple[Any, ...]) -> None:
    leaves = torch.utils._pytree.tree_leaves(example)
    other = next((each for each in leaves if not isinstance(each, torch.Tensor)), None)
    if other is not None or not leaves:
        raise UsageError(
            f"example: {type(other).__name__ if leaves else 'nothing'} given; expected tensors: "
            "give it a module whose forward takes nothing else"
        )


@dataclass(frozen=True)
class _Imported:
    piece: Piece
    function: relax.Function | None
    reason: str = ""


def _import(piece: Piece) -> _Imported:
    if not piece.computes:
        return _Imported(piece, None, "a view")
    try:
        return _Imported(piece, imported(piece))
    except ModelError as error:
        return _Imported(piece, None, str(error))


def _together(functions: list[relax.Function]) -> IRModule:
    """All parts in one module, so that equal functions are tuned once."""
    named = {f"part_{i}": function for i, function in enumerate(functions[1:], 1)}
    return IRModule(
        {
            name: function.with_attr("global_symbol", name)
            for name, function in {"main": functions[0], **named}.items()
        }
    )


@dataclass(frozen=True)
class _Choice:
    """Of each part torch's kernel or ours."""

    module: Any
    parts: Split
    target: TargetSpec
    work_dir: str

    def optimized(self, found: list[_Imported]) -> Optimized:
        """The graph with our kernels in it, or as it was where that is not faster as a whole."""
        graph = copy.copy(self.parts.graph)
        chosen = []
        for one in found:
            part, kernel = self._part(one)
            chosen.append(part)
            if kernel is not None:
                graph.add_submodule(part.name, kernel)
        made = Optimized(graph, self.parts.call_spec, tuple(chosen), self._place)
        return self._gated(made)

    def _part(self, one: _Imported) -> tuple[Part, Kernel | None]:
        piece = one.piece
        if one.function is None:
            return Part(piece.name, piece.operators, "torch", 0.0, one.reason), None
        try:
            kernel = compiled(one.function, piece, self.target, self.work_dir)
            with torch.no_grad():
                fixed = tuple(piece.constants)
                beside = contest(piece.graph, kernel, piece.inputs, fixed, self._place)
        except (KopeError, *TVM_ERRORS) as error:
            reason = first_line(error)
            return Part(piece.name, piece.operators, "torch", 0.0, reason), None
        if not beside.accepted:
            reason = beside.reason or f"{beside.gain:.2f} times torch's speed"
            return Part(piece.name, piece.operators, "torch", beside.gain, reason), None
        return Part(piece.name, piece.operators, "kope", beside.gain), kernel

    def _place(self) -> AbstractContextManager[Any]:
        return place(self.target)

    def _gated(self, made: Optimized) -> Optimized:
        if not made.by_kope:
            return Optimized(self.module, None, made.parts)
        with torch.no_grad():
            theirs = Flat(self.module, self.parts.call_spec.in_spec)
            beside = contest(theirs, made.run, self.parts.inputs)
        made.gain = beside.gain
        if beside.accepted:
            return made
        reason = f"as a whole {beside.reason or f'{beside.gain:.2f} times as fast'}"
        parts = tuple(replace(part, by="torch", reason=reason) for part in made.parts)
        return Optimized(self.module, None, parts)


def _machine(example: tuple[Any, ...]) -> str:
    """The target of the device that a tensor of the example is on."""
    tensor = torch.utils._pytree.tree_leaves(example)[0]
    if not tensor.is_cuda:
        return "host"
    name = torch.cuda.get_device_name(tensor.device)
    chip = next((chip for chip in _GPUS if chip in name.lower()), None)
    if chip is None:
        raise UsageError(f"{name}: no target of this name; pass target=, one of `kope targets`")
    return f"cuda-{chip}"


def _own_folder(parts: Split, target: TargetSpec) -> Path:
    texts = [parts.graph.code, *(piece.graph.code for piece in parts.pieces)]
    texts += [str([tuple(each.shape) for each in piece.inputs]) for piece in parts.pieces]
    key = hashlib.sha256("\0".join([target.key, *texts]).encode()).hexdigest()[:16]
    return default_path().parent / "torch" / key
