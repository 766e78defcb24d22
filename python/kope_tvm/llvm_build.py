# SPDX-License-Identifier: Apache-2.0
"""TVM's build: on a GPU with a schedule for every function, and without a pass that breaks one.

TVM 0.27's StorageRewrite gives a product's float32 tile the memory of a float16 one, which its own
lowering of matrix fragments then refuses: tensor-core candidates of MetaSchedule's with float32
sums fails to build, and builds without that pass.
LLVM's vectoriser of straight-line code makes invalid code of some small unrolled loops, e.g. of a
2x2 average pooling of [1, 4, 6, 3] with AVX: "Instruction does not dominate all uses".
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import IRModule, relax
from tvm.target import Target

from kope_tvm import compiled_cuda, tir_pipeline
from kope_tvm.code_apart import set_apart
from kope_tvm.code_form import form_of_all
from kope_tvm.default_schedules import with_default_schedules

_BROKEN = "LLVM module verification failed"
_WITHOUT_THE_PASS = "-vectorize-slp=false"
_ALIASED = "tvm_access_ptr element type must match the source buffer"
_WITHOUT_ALIASES = {"tirx.disable_storage_rewrite": True}
_ASYNC = {"tirx.use_async_copy": True}
"""Copies that a schedule marks as asynchronous are; without it TVM waits for each."""


def build(mod: IRModule, target: Target) -> Any:
    """What `tvm.compile` returns; raises what it raises."""
    if target.kind.name == "cuda":
        return build_untuned(mod, target)
    mod = with_default_schedules(mod, target)
    funcs = list(mod.functions.values())
    if any(isinstance(func, relax.Function) for func in funcs):
        return _compiled(set_apart(mod, target), target, {}, tir_pipeline.NAME)
    return _compiled(mod, form_of_all(funcs).of(target), {}, tir_pipeline.NAME)


def build_untuned(mod: IRModule, target: Target) -> Any:
    """The same by TVM's own lowering: what kope's, like all else of kope's, is proved against."""
    mod = with_default_schedules(mod, target)
    if target.kind.name != "cuda":
        return _compiled(mod, target, {}, "default")
    compiled_cuda.install()
    with tvm.transform.PassContext(config=_ASYNC):
        return _compiled(mod, target, _ASYNC, "default")


def _compiled(mod: IRModule, target: Target, config: Mapping[str, bool], pipeline: str) -> Any:
    try:
        return tvm.compile(mod, target=target, tir_pipeline=pipeline)
    except RuntimeError as error:
        if _ALIASED in str(error):
            with tvm.transform.PassContext(config={**config, **_WITHOUT_ALIASES}):
                return tvm.compile(mod, target=target, tir_pipeline=pipeline)
        if _BROKEN not in str(error):
            raise
        options = dict(target.export())
        options["cl-opt"] = [*options.get("cl-opt", ()), _WITHOUT_THE_PASS]
        return tvm.compile(mod, target=Target(options), tir_pipeline=pipeline)


def object_bytes(mod: IRModule, target: Target) -> bytes:
    """The object file that LLVM makes of a module; raises what `build` raises."""
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        made = Path(scratch) / "function.o"
        build(mod, target).mod.write_to_file(str(made), "o")
        return made.read_bytes()
