# SPDX-License-Identifier: Apache-2.0
"""A compiled model: run it, time it, profile it, save it as one `.so` and load it again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile, which
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.support import cc

from kope_tvm.cores import off_the_workers_cores, same_cores_afterwards
from kope_tvm.errors import KopeError, StorageError, UsageError
from kope_tvm.manifest import Coverage, Manifest, append_manifest, read_manifest
from kope_tvm.native_stderr import SCOPES, without_lines
from kope_tvm.tensor_spec import TensorSpec

_HOST = os.uname().machine
_PROFILED_CALLS = 5


@dataclass(frozen=True)
class OpTime:
    """Time inside one function of a model, over one call of the model."""

    name: str
    secs: float
    calls: int


class Artifact:
    """A compiled model, on this machine's CPU."""

    def __init__(
        self,
        executable: Any,
        manifest: Manifest,
        path: Path | None = None,
        mod: tvm.IRModule | None = None,
    ) -> None:
        """`executable` is what `tvm.compile` returns or, for a loaded file, its module."""
        self.mod = mod
        """What was compiled, scheduled; None for a loaded file."""
        self.manifest = manifest
        self.path = path
        self._executable = executable
        self._device = tvm.cpu()
        self._loaded: Any = None

    @property
    def coverage(self) -> Coverage:
        return self.manifest.coverage

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self.manifest.outputs

    @property
    def target(self) -> Mapping[str, object]:
        return self.manifest.tvm_target

    def passed(self, gate: str) -> None:
        """Note a gate of the whole model, and how it ended."""
        made_by = self.manifest.made_by
        made_by = replace(made_by, gates=(*made_by.gates, gate))
        self.manifest = replace(self.manifest, made_by=made_by)

    def run(
        self, inputs: Mapping[str, np.ndarray] | None = None, **named: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Compute the outputs; inputs by name, in a mapping where the name is no identifier."""
        args, outs = self._arguments({**(inputs or {}), **named})
        entry = self._entry()
        with off_the_workers_cores():
            result = entry(*args)
        return tuple(_to_numpy(each) for each in _flatten(result if outs is None else outs))

    def time(
        self, inputs: Mapping[str, np.ndarray], *, number: int = 10, repeat: int = 5
    ) -> tuple[float, ...]:
        """Seconds of one call, a value a repeat, after one call to warm up."""
        args, _ = self._arguments(inputs)
        evaluator = self._module().time_evaluator(
            self.manifest.entry, self._device, number=number, repeat=repeat
        )
        self._entry()(*args)  # TVM counts the cores it may use when it starts its workers.
        with off_the_workers_cores():
            return tuple(float(secs) for secs in evaluator(*args).results)

    def profile(self, inputs: Mapping[str, np.ndarray]) -> tuple[OpTime, ...]:
        """Time of each function in one call, the longest first."""
        args, _ = self._arguments(inputs)
        self._entry()(*args)
        with off_the_workers_cores():
            if self.manifest.is_relax:
                # An instrument cannot be taken off again: it gets a machine of its own.
                instrumented = relax.VirtualMachine(self._executable, self._device)
                return _profile_vm(instrumented, self.manifest.entry, args)
            begin = perf_counter()
            self._entry()(*args)
            return (OpTime(self.manifest.entry, perf_counter() - begin, 1),)

    def save(self, path: str | Path) -> Path:
        """Write one shared object; a failure leaves whatever was at `path` before."""
        path = Path(path)
        try:
            with TemporaryDirectory(dir=path.parent) as folder:
                built = Path(folder) / "built.so"
                if self.path is None:
                    self._export(built)
                    append_manifest(built, self.manifest)
                else:
                    copyfile(self.path, built)
                built.replace(path)
        except FileNotFoundError as error:
            raise UsageError(f"{path}: no folder {str(path.parent)!r} to write to") from error
        except PermissionError as error:
            raise UsageError(f"{path}: no permission to write there") from error
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error}") from error
        self.path = path
        return path

    @staticmethod
    def load(path: str | Path) -> Artifact:
        """Load what `save` wrote."""
        path = Path(path)
        manifest = read_manifest(path)
        try:
            with without_lines(SCOPES):
                module = tvm.runtime.load_module(str(path.resolve()))
        except (OSError, RuntimeError, ValueError, tvm.error.InternalError) as error:
            raise UsageError(f"{path}: cannot be loaded on this machine: {error}") from error
        return Artifact(module, manifest, path)

    def _export(self, path: Path) -> None:
        compiler = _compiler(self._machine)
        linker = cc.cross_compiler(compiler) if self._machine != _HOST else None
        with without_lines(SCOPES):
            self._executable.export_library(str(path), fcompile=linker)

    @property
    def _machine(self) -> str:
        """The architecture it is compiled for."""
        return str(self.target.get("mtriple", "")).partition("-")[0] or _HOST

    def _module(self) -> Any:
        """What has the functions, loaded on first use, with the thread pool set up."""
        if self._loaded is None:
            if self._machine != _HOST:
                raise UsageError(
                    f"{self.manifest.name} is compiled for {self._machine}; this machine is {_HOST}"
                )
            use_threads(self.manifest.num_cores)
            if self.manifest.is_relax:
                self._loaded = relax.VirtualMachine(self._executable, self._device)
            else:
                jit = getattr(self._executable, "jit", None)
                self._loaded = jit() if jit else self._executable
        return self._loaded

    def _entry(self) -> Callable[..., Any]:
        function: Callable[..., Any] = self._module()[self.manifest.entry]
        return function

    def _arguments(self, inputs: Mapping[str, np.ndarray]) -> tuple[list[Any], list[Any] | None]:
        """All arguments in order and, for a PrimFunc, the outputs among them."""
        given = [_checked(spec, inputs) for spec in self.inputs]
        unknown = set(inputs) - {spec.name for spec in self.inputs}
        if unknown:
            known = "; ".join(map(str, self.inputs))
            raise UsageError(f"unknown input {', '.join(sorted(unknown))}; inputs: {known}")
        args = [_to_argument(array, self._device) for array in given]
        if self.manifest.is_relax:
            return args, None
        outs = [_empty(spec, self._device) for spec in self.outputs]
        for position, out in zip(self.manifest.output_positions, outs, strict=True):
            args.insert(position, out)
        return args, outs


def use_threads(num_threads: int) -> None:
    """Give TVM's pool this many threads: left alone it takes half of an x86 machine's.

    The environment sizes a pool not yet started, the call one that is. The call also binds the
    caller to one core for good, whose next target would then be one of one core.
    """
    os.environ["TVM_NUM_THREADS"] = str(num_threads)
    with same_cores_afterwards():
        tvm.get_global_func("runtime.config_threadpool")(1, num_threads)


def _checked(spec: TensorSpec, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    if spec.name not in inputs:
        raise UsageError(f"no value for input {spec}; given: {', '.join(inputs) or 'none'}")
    array = np.asarray(inputs[spec.name])
    fits = len(array.shape) == len(spec.shape) and all(
        want in (-1, have) for want, have in zip(spec.shape, array.shape, strict=True)
    )
    if not fits or str(array.dtype) != spec.dtype:
        raise UsageError(f"input {spec} was given {list(array.shape)} {array.dtype}")
    return array


def _to_argument(array: np.ndarray, device: Any) -> Any:
    return tvm.runtime.tensor(np.asarray(array, order="C"), device)


def _empty(spec: TensorSpec, device: Any) -> Any:
    if -1 in spec.shape:
        raise UsageError(f"output {spec} has a symbolic shape: kope cannot allocate it")
    return tvm.runtime.tensor(np.zeros(spec.shape, spec.dtype), device)


def _flatten(result: Any) -> Sequence[Any]:
    return [result] if isinstance(result, tvm.runtime.Tensor) else list(result)


def _to_numpy(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.numpy())


def _profile_vm(vm: Any, entry: str, args: Sequence[Any]) -> tuple[OpTime, ...]:
    """Of each function the shortest of a few calls of the model: others were interrupted."""
    calls: list[dict[str, list[float]]] = []
    begun: list[float] = []

    def instrument(_func: Any, name: str, before_run: bool, _ret: Any, *_args: Any) -> int:
        if before_run:
            begun.append(perf_counter())
        else:
            calls[-1].setdefault(str(name), []).append(perf_counter() - begun.pop())
        return 0

    vm.set_instrument(instrument)
    for _ in range(_PROFILED_CALLS):
        calls.append({})
        vm[entry](*args)
    found = [
        OpTime(name, min(sum(call[name]) for call in calls), len(secs))
        for name, secs in calls[0].items()
    ]
    return tuple(sorted(found, key=lambda each: -each.secs))


def _compiler(machine: str) -> str:
    """Return the C++ compiler that links for an architecture."""
    name = f"{machine}-linux-gnu-g++"
    found = cc.get_cc() if machine == _HOST else which(name)
    if not found:
        package = "g++" if machine == _HOST else f"g++-{machine}-linux-gnu"
        raise KopeError(
            f"linking for {machine} needs a C++ compiler and there is none; "
            f"Debian: apt install {package}"
        )
    return str(found)
