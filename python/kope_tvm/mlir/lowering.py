# SPDX-License-Identifier: Apache-2.0
"""From linalg on tensors to LLVM's dialect: MLIR's default way, or a script's and vectors.

Runs in the worker alone: it works on modules that a script has had its hands on.
"""

from __future__ import annotations

from typing import Any

from kope_tvm.mlir.allow_list import ENTRY, check_module
from kope_tvm.mlir.bindings import interpreter, ir, linalg, passmanager
from kope_tvm.mlir.vector_math import expand_vector_math

_DECOMPOSE = f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @{ENTRY}(%root: !transform.any_op {{transform.readonly}}) {{
    %softmax = transform.structured.match ops{{["linalg.softmax"]}} in %root
      : (!transform.any_op) -> !transform.any_op
    %parts = transform.structured.decompose_interface %softmax
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}
"""
"""What convert-linalg-to-loops cannot take as it is."""

_VECTORS = f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @{ENTRY}(%root: !transform.any_op {{transform.readonly}}) {{
    %funcs = transform.structured.match ops{{["func.func"]}} in %root
      : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %funcs {{
      transform.apply_patterns.vector.lower_masked_transfers
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    transform.apply_cse to %funcs : !transform.any_op
    %loops = transform.structured.match ops{{["scf.for"]}} in %funcs
      : (!transform.any_op) -> !transform.any_op
    transform.foreach %loops : !transform.any_op {{
    ^bb0(%loop: !transform.any_op):
      transform.loop.hoist_loop_invariant_subsets %loop : !transform.any_op
    }}
    transform.apply_patterns to %funcs {{
      transform.apply_patterns.vector.lower_masks
      transform.apply_patterns.vector.lower_contraction lowering_strategy = outerproduct
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = innerparallel
      transform.apply_patterns.vector.lower_transpose lowering_strategy = shuffle_1d
      transform.apply_patterns.vector.lower_broadcast
      transform.apply_patterns.vector.lower_shape_cast
    }} : !transform.any_op
    transform.yield
  }}
}}
"""
"""What becomes of vectors, the same after every script: accumulators out of loops, sums of outer
products, one dimension."""

_BUFFERIZE = (
    "builtin.module("
    "func.func(eliminate-empty-tensors,empty-tensor-to-alloc-tensor),"
    "one-shot-bufferize{bufferize-function-boundaries=1 "
    "function-boundary-type-conversion=identity-layout-map},"
    "canonicalize,cse,"
    "buffer-results-to-out-params{hoist-static-allocs=true modify-public-functions=true},"
    "func.func(buffer-hoisting,buffer-loop-hoisting),"
    "buffer-deallocation-pipeline,canonicalize,cse)"
)
_LOOPS = "builtin.module(func.func(convert-linalg-to-loops,scf-forall-to-for),canonicalize,cse)"
_LLVM = (
    "builtin.module("
    "func.func(convert-vector-to-scf{full-unroll=true},loop-invariant-code-motion),"
    "fold-memref-alias-ops,expand-strided-metadata,canonicalize,cse,"
    "convert-scf-to-cf,lower-affine,"
    # What libm takes an element at a time comes out of vectors again, whose turn is after it.
    "convert-math-to-llvm,convert-math-to-libm,"
    "convert-vector-to-llvm{reassociate-fp-reductions=true},convert-arith-to-llvm,convert-index-to-llvm,convert-ub-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,"
    "reconcile-unrealized-casts)"
)


class LoweringError(Exception):
    """A script or a pass refused; `stage` is `script` or `build`."""

    def __init__(self, stage: str, code: str, reason: str) -> None:
        super().__init__(reason)
        self.stage, self.code = stage, code


def scripted(module: Any, script: str) -> None:
    """Apply a script that the list allows to a module, in place."""
    try:
        found = ir.Module.parse(script)
    except ir.MLIRError as error:
        raise LoweringError("script", "E_SCRIPT", str(error)) from error
    verdict = check_module(found)
    if not verdict.accepted:
        raise LoweringError("script", verdict.code, verdict.reason)
    _interpreted(module, found, "script", "E_TRANSFORM")


def lower(module: Any, *, has_vectors: bool) -> None:
    """Linalg to LLVM's dialect, in place; results become parameters behind the others."""
    _interpreted(module, ir.Module.parse(_DECOMPOSE), "build", "E_BUILD")
    if has_vectors:
        _interpreted(module, ir.Module.parse(_VECTORS), "build", "E_BUILD")
    _run(module, _BUFFERIZE)
    _copies_as_linalg(module)
    _run(module, _LOOPS)
    if has_vectors:
        expand_vector_math(module)
    _run(module, _LLVM)


def _interpreted(module: Any, script: Any, stage: str, code: str) -> None:
    entry = next(
        op for op in script.body.operations if str(op.attributes["sym_name"]) == f'"{ENTRY}"'
    )
    try:
        interpreter.apply_named_sequence(module.operation, entry, script)
    except (RuntimeError, ValueError) as error:
        raise LoweringError(stage, code, str(error)) from error
    if not module.operation.verify():
        raise LoweringError(stage, code, "the module no longer verifies")


def _run(module: Any, pipeline: str) -> None:
    try:
        passmanager.PassManager.parse(pipeline).run(module.operation)
    except (ir.MLIRError, RuntimeError) as error:
        raise LoweringError("build", "E_BUILD", str(error)) from error


def _copies_as_linalg(module: Any) -> None:
    """Copies between layouts as loops: LLVM's way calls a library that is not there."""
    found: list[Any] = []

    def note(op: Any) -> Any:
        if op.name == "memref.copy":
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            linalg.copy(op.operands[0], outs=[op.operands[1]])
        op.erase()
