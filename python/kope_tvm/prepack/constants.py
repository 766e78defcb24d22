# SPDX-License-Identifier: Apache-2.0
"""Packs the constant operands of a model's scheduled functions, once and for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, ir, relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import Target

from kope_tvm.call_tir import called_name
from kope_tvm.prepack.split import Split, split

_HOST = {"kind": "llvm"}
"""Packing is copying: whatever machine the model is for, this one does it."""


def prepacked(mod: IRModule, target: Target) -> tuple[IRModule, tuple[str, ...]]:
    """The module with its weights laid out, and the functions that take them so.

    A function is left as it is where it packs nothing, where a call of it gives it a weight that
    is not constant, and on a machine whose functions are not run where they are called.
    """
    entry = mod.functions.get(_main(mod))
    if target.kind.name != "llvm" or not isinstance(entry, relax.Function):
        return mod, ()
    calls = _calls(entry)
    splits = {name: found for name, each in calls.items() if (found := _split(mod, name, each))}
    if not splits:
        return mod, ()
    packs = _Packs(splits)
    others = {var: func for var, func in mod.functions.items() if var.name_hint not in splits}
    builder = relax.BlockBuilder(IRModule(others, attrs=mod.attrs))
    fresh = {name: builder.add_func(one.rest, name) for name, one in splits.items()}
    made = builder.get()
    rewritten = _Calls(made, fresh, splits, packs).visit_expr(entry)
    made.update_func(_main(made), rewritten)
    return made, tuple(sorted(splits))


def _main(mod: IRModule) -> Any:
    return next((var for var in mod.get_global_vars() if var.name_hint == "main"), None)


def _calls(entry: relax.Function) -> dict[str, list[ir.Call]]:
    """The calls of each function, by name."""
    found: dict[str, list[ir.Call]] = {}

    def visit(expr: Any) -> None:
        if name := called_name(expr):
            found.setdefault(name, []).append(expr)

    relax.analysis.post_order_visit(entry, visit)
    return found


def _split(mod: IRModule, name: str, calls: Sequence[ir.Call]) -> Split | None:
    func = mod[name]
    if not isinstance(func, tirx.PrimFunc) or "tirx.is_scheduled" not in func.attrs:
        return None
    arguments = [list(call.args[1].fields) for call in calls]
    constants = [
        at
        for at, given in enumerate(zip(*arguments, strict=True))
        if all(isinstance(each, ir.GenericConst) for each in given)
    ]
    return split(func, constants, len(arguments[0])) if constants else None


class _Packs:
    """The packing functions of a model, compiled together; each weight is packed once."""

    def __init__(self, splits: Mapping[str, Split]) -> None:
        self._splits = splits
        symbols = {name: f"pack_{number}" for number, name in enumerate(splits)}
        mod = IRModule({symbols[name]: _alone(one, symbols[name]) for name, one in splits.items()})
        self._symbols = symbols
        self._library = tvm.compile(mod, target=Target(_HOST)).jit()
        self._done: dict[tuple[Any, ...], list[ir.GenericConst]] = {}

    def packed(self, name: str, constants: Sequence[ir.GenericConst]) -> list[ir.GenericConst]:
        """What the function's packed buffers hold for these constants."""
        key = (name, *(hash(each.value) for each in constants))
        if key not in self._done:
            found = self._splits[name]
            outs = [
                tvm.runtime.tensor(np.zeros(shape, dtype))
                for shape, dtype in zip(found.shapes, found.dtypes, strict=True)
            ]
            self._library[self._symbols[name]](*(each.value for each in constants), *outs)
            self._done[key] = [relax.const(out) for out in outs]
        return self._done[key]


def _alone(found: Split, symbol: str) -> tirx.PrimFunc:
    """The packing function under a name of its own, sharing no variable with the rest."""
    attrs = {"global_symbol": symbol, "s_tir": True, "tirx.noalias": True}
    bare = tirx.PrimFunc(found.pack.params, found.pack.body, found.pack.ret_type)
    return tvm.ir.load_json(tvm.ir.save_json(bare.with_attr(attrs)))


@mutator
class _Calls(PyExprMutator):
    """Gives every call of a split function what was packed for it."""

    def __init__(
        self,
        mod: IRModule,
        fresh: Mapping[str, ir.GlobalVar],
        splits: Mapping[str, Split],
        packs: _Packs,
    ) -> None:
        super().__init__(mod)
        self.fresh = fresh
        self.splits = splits
        self.packs = packs

    def visit_call_(self, call: ir.Call) -> relax.Expr:
        """The same call of the rest of its function."""
        name = called_name(call)
        if name not in self.splits:
            return super().visit_call_(call)
        found, given = self.splits[name], list(call.args[1].fields)
        packed = self.packs.packed(name, [given[at] for at in found.sources])
        args = relax.Tuple([*(self.visit_expr(given[at]) for at in found.kept), *packed])
        return relax.call_tir(self.fresh[name], args, list(call.ty_args))
