# SPDX-License-Identifier: Apache-2.0
"""Anything a user may call a MODEL, as one IRModule with its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tvm import IRModule, relax, tirx
from tvm.error import InternalError
from tvm.tirx.buffer import BufferType

from kope_tvm.errors import ModelError, UsageError
from kope_tvm.extraction import extract_tasks, refused_functions, written_params
from kope_tvm.operators import parse_operator
from kope_tvm.script_file import read_json, read_script
from kope_tvm.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from kope_tvm.operators.operator import BoundOperator

__all__ = ["Model", "TensorSpec", "extract_tasks", "load_model", "refused_functions"]

Kind = Literal["onnx", "tir", "relax", "operator"]
_NO_DIMS: Mapping[str, int] = {}


@dataclass(frozen=True)
class Model:
    """One loaded model."""

    name: str
    kind: Kind
    mod: IRModule
    """Relax after the `zero` pipeline, parameters bound; or PrimFuncs."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    entry: str = "main"
    """The function that the inputs and outputs are of."""
    onnx: bytes | None = field(default=None, repr=False)
    """The same function for ONNX Runtime; None where there is none."""

    @property
    def is_relax(self) -> bool:
        return isinstance(self.mod[self.entry], relax.Function)


def load_model(spec: str | Path | IRModule | Model, *, dims: Mapping[str, int] = _NO_DIMS) -> Model:
    """Load an `.onnx`, a TVMScript `.py`, a `.json` IRModule, an `.mlir`, an `op:` or an IRModule.

    `dims` binds dynamic dimensions, by name or as `input.axis`. What was loaded stays as it is.
    """
    if isinstance(spec, Model):
        return spec
    if isinstance(spec, IRModule):
        return _from_module(spec, "module", dims)
    if isinstance(spec, str) and spec.startswith("op:"):
        return _from_operator(spec, dims)
    path = Path(spec)
    if not path.is_file():
        raise ModelError(f"{path}: no such file; {_EXPECTED}")
    if path.suffix == ".onnx":
        return _from_onnx(path, dims)
    if path.suffix in _READERS:
        return _from_module(_READERS[path.suffix](path), path.stem, dims)
    raise ModelError(f"{path}: unknown kind of model; {_EXPECTED}")


def _read_mlir(path: Path) -> IRModule:
    from kope_tvm.mlir.importing import read_mlir  # Its bindings are an extra.

    return read_mlir(path)


_READERS = {".py": read_script, ".json": read_json, ".mlir": _read_mlir}
_EXPECTED = (
    "expected an .onnx file, a TVMScript .py or .json IRModule, linalg as .mlir, "
    "or an operator spec such as op:matmul:m=512,n=512,k=512,dtype=float32"
)


def _from_operator(spec: str, dims: Mapping[str, int]) -> Model:
    bound = parse_operator(spec)
    _refuse_dims(dims, bound.spec)
    reference = _onnx_of(bound)
    return Model(bound.spec, "operator", bound.tir(), bound.inputs, (bound.output,), onnx=reference)


def _onnx_of(bound: BoundOperator) -> bytes | None:
    """Nothing to compare with where the extra `onnx` is not installed."""
    try:
        return bound.onnx()
    except ImportError:
        return None


def _from_onnx(path: Path, dims: Mapping[str, int]) -> Model:
    try:
        from kope_tvm.onnx_import import import_onnx
    except ImportError as error:
        raise _no_onnx(path, error) from error
    found = import_onnx(path, dims)
    return Model(path.stem, "onnx", found.mod, found.inputs, found.outputs, onnx=found.bound)


def _no_onnx(path: Path, error: ImportError) -> UsageError:
    return UsageError(
        f"{path}: reading ONNX needs the package {error.name!r}; pip install 'kope-tvm[onnx]'"
    )


def _from_module(mod: IRModule, name: str, dims: Mapping[str, int]) -> Model:
    entry = _entry(mod)
    if isinstance(mod[entry], relax.Function):
        return _from_relax(mod, name, dims)
    _refuse_dims(dims, name)
    inputs, outputs = _edges(mod[entry])
    return Model(name, "tir", mod, inputs, outputs, entry=entry)


def _entry(mod: IRModule) -> str:
    names = sorted(var.name_hint for var in mod.get_global_vars())
    return "main" if "main" in names else names[0]


def _edges(func: tirx.PrimFunc) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Parameters that the body stores to are outputs, the others inputs."""
    written = written_params(func)
    specs = [_tir_spec(param) for param in func.params]
    inputs = tuple(spec for i, spec in enumerate(specs) if i not in written)
    return inputs, tuple(spec for i, spec in enumerate(specs) if i in written)


def _tir_spec(param: tirx.Var) -> TensorSpec:
    """A scalar has no axes; -1 stands for a symbolic extent."""
    if not isinstance(param.ty, BufferType):
        return TensorSpec(param.name, (), str(param.ty))
    return TensorSpec(param.name, _extents(param.shape), str(param.dtype))


def _extents(shape: Iterable[object]) -> tuple[int, ...]:
    return tuple(int(each) if isinstance(each, tirx.IntImm) else -1 for each in shape)


def _from_relax(mod: IRModule, name: str, dims: Mapping[str, int]) -> Model:
    if dims:
        mod = _bind_symbolic(mod, name, dims)
    func = mod["main"]
    result = func.ret_ty
    fields = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    inputs = tuple(_relax_spec(param.name, param.ty, name) for param in func.params)
    outputs = tuple(_relax_spec(f"output_{i}", each, name) for i, each in enumerate(fields))
    return Model(name, "relax", relax.get_pipeline("zero")(mod), inputs, outputs)


def _bind_symbolic(mod: IRModule, name: str, dims: Mapping[str, int]) -> IRModule:
    try:
        return relax.transform.BindSymbolicVars(dict(dims), "main")(mod)
    except InternalError as error:
        reason = str(error).strip().splitlines()[0].rpartition("is false: ")[2]
        raise UsageError(f"{name}: --dim {', '.join(dims)}: {reason}") from error


def _relax_spec(edge: str, found: object, name: str) -> TensorSpec:
    if not isinstance(found, relax.TensorType) or found.shape is None:
        raise ModelError(f"{name}: {edge!r} of 'main' is not a tensor with a shape")
    return TensorSpec(edge, _extents(found.shape.values), str(found.dtype))


def _refuse_dims(dims: Mapping[str, int], name: str) -> None:
    if dims:
        raise UsageError(f"{name}: --dim {', '.join(dims)}: only ONNX and Relax models take --dim")
