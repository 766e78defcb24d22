# SPDX-License-Identifier: Apache-2.0
"""Functions of a model whose code takes another form than the model's, as libraries beside it.

TVM compiles all functions of a module for one target string. What asks for another is compiled
by itself and linked as Relax links the code of other compilers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import IRModule, ir, relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target

from kope_tvm import tir_pipeline
from kope_tvm.call_tir import called_name
from kope_tvm.code_form import CodeForm, form_of

_LIBRARIES = "external_mods"
_SUFFIX = "_apart"


def set_apart(mod: IRModule, target: Target) -> IRModule:
    """The module as it calls such functions, with their libraries among its attributes.

    What is no LLVM target's has no forms.
    """
    forms = _forms(mod) if target.kind.name == "llvm" else {}
    if not forms:
        return mod
    made = IRModule(dict(mod.functions), attrs=mod.attrs)
    for var, func in mod.functions.items():
        if isinstance(func, relax.Function):
            made.update_func(var, _Calls(mod, forms).visit_expr(func))
    libraries = [_library(mod, forms, form, target) for form in sorted(set(forms.values()))]
    known = dict(mod.attrs).get(_LIBRARIES, ()) if mod.attrs else ()
    return _without_unused(made, forms).with_attr(_LIBRARIES, [*known, *libraries])


def _forms(mod: IRModule) -> Mapping[str, CodeForm]:
    """Of the functions that ask for one."""
    found = {
        str(var.name_hint): form_of(func)
        for var, func in mod.functions.items()
        if isinstance(func, tirx.PrimFunc)
    }
    return {name: form for name, form in found.items() if form != CodeForm()}


def _library(mod: IRModule, forms: Mapping[str, CodeForm], form: CodeForm, target: Target) -> Any:
    funcs = {
        name + _SUFFIX: mod[name].with_attr("global_symbol", name + _SUFFIX)
        for name, each in forms.items()
        if each == form
    }
    return tvm.tirx.build(IRModule(funcs), target=form.of(target), pipeline=tir_pipeline.NAME)


def _without_unused(mod: IRModule, names: Mapping[str, CodeForm]) -> IRModule:
    """Without the functions of these names that nothing calls any more."""
    called = {
        str(var.name_hint)
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for var in relax.analysis.all_global_vars(func)
    }
    kept = {
        var: func
        for var, func in mod.functions.items()
        if var.name_hint not in names or var.name_hint in called
    }
    return IRModule(kept, attrs=mod.attrs)


@mutator
class _Calls(PyExprMutator):
    """Calls functions of these names where they are now."""

    def __init__(self, mod: IRModule, names: Mapping[str, CodeForm]) -> None:
        super().__init__(mod)
        self.names = names

    def visit_call_(self, call: ir.Call) -> relax.Expr:
        """A call of the library's function, in place of one of the module's."""
        seen = super().visit_call_(call)
        name = called_name(seen)
        if name not in self.names:
            return seen
        return relax.call_dps_packed(name + _SUFFIX, seen.args[1], list(seen.ty_args))
