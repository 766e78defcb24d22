# SPDX-License-Identifier: Apache-2.0
"""A compiled model's module as a plan of kernel calls."""

from __future__ import annotations

from tvm import IRModule, tirx
from tvm.tirx.buffer import BufferType

from kope_tvm.artifact import Artifact
from kope_tvm.c_package.identifier import identifiers
from kope_tvm.c_package.plan import (
    PARAM,
    CFunction,
    Operand,
    Param,
    Plan,
    Step,
    c_type,
)
from kope_tvm.c_package.straight_line import StraightLine
from kope_tvm.errors import UsageError
from kope_tvm.extraction import written_params
from kope_tvm.manifest import Manifest
from kope_tvm.tensor_spec import TensorSpec

MAX_OPERANDS = 64
"""Of kope_runtime.c."""
_RESERVED = ("message", "made_by", "set_threads")
"""What every library has beside its functions."""


def lowered(artifact: Artifact) -> Plan:
    """Plan a library; UsageError names what C cannot do.

    A Relax model becomes one function, PrimFuncs become one each.
    """
    mod, manifest = artifact.mod, artifact.manifest
    if mod is None:
        raise UsageError(
            f"{manifest.name}: loaded from a file, which has no code left to export; "
            "compile the model again"
        )
    plan = _whole_model(mod, manifest) if manifest.is_relax else _functions(mod, manifest.entry)
    for function in plan.functions:
        _check(function)
    return plan


def _check(function: CFunction) -> None:
    for step in function.steps:
        for operand in step.operands:
            c_type(operand.spec)
        if len(step.operands) > MAX_OPERANDS:
            raise UsageError(
                f"{function.source}: {step.kernel} takes {len(step.operands)} tensors; "
                f"expected at most {MAX_OPERANDS}"
            )


def _whole_model(mod: IRModule, manifest: Manifest) -> Plan:
    params = _params(manifest)
    line = StraightLine.of(mod["main"], params, manifest.name)
    function = CFunction("run", "main", params, line.steps, line.arena_bytes)
    used = {step.kernel for step in line.steps if step.kernel}
    return Plan((function,), _kernels(mod, used), line.constants)


def _params(manifest: Manifest) -> tuple[Param, ...]:
    """Inputs before outputs."""
    specs = (*manifest.inputs, *manifest.outputs)
    names = identifiers(spec.name for spec in specs)
    first_output = len(manifest.inputs)
    return tuple(
        Param(name, spec, is_output=i >= first_output)
        for i, (name, spec) in enumerate(zip(names, specs, strict=True))
    )


def _functions(mod: IRModule, entry: str) -> Plan:
    names = sorted(str(var.name_hint) for var in mod.get_global_vars())
    wanted = ("run" if name == entry else name for name in names)
    called = identifiers((*_RESERVED, *wanted))[len(_RESERVED) :]
    functions = tuple(
        _one_kernel(call, name, _own_params(mod[name]))
        for call, name in zip(called, names, strict=True)
    )
    return Plan(functions, _kernels(mod, names))


def _one_kernel(call: str, name: str, params: tuple[Param, ...]) -> CFunction:
    operands = tuple(Operand(PARAM, i, param.spec) for i, param in enumerate(params))
    return CFunction(call, name, params, (Step(name, operands),))


def _own_params(func: tirx.PrimFunc) -> tuple[Param, ...]:
    written = written_params(func)
    names = identifiers(param.name for param in func.params)
    return tuple(
        Param(name, _spec(param), is_output=i in written)
        for i, (name, param) in enumerate(zip(names, func.params, strict=True))
    )


def _spec(param: tirx.Var) -> TensorSpec:
    if not isinstance(param.ty, BufferType):
        raise UsageError(f"parameter {param.name!r} is a scalar; expected tensors only")
    shape = (int(each) if isinstance(each, tirx.IntImm) else -1 for each in param.shape)
    return TensorSpec(param.name, tuple(shape), str(param.dtype))


def _kernels(mod: IRModule, names: set[str] | list[str]) -> IRModule:
    """The PrimFuncs alone, each exported under its own name."""
    return IRModule({name: mod[name].with_attr("global_symbol", name) for name in sorted(names)})
