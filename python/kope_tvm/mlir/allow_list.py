# SPDX-License-Identifier: Apache-2.0
"""What a transform script that nobody has read may say: it tiles and vectorises, and no more.

The text is checked before anything parses it; the worker checks the parsed module again, since a
text can be spelt in more ways than a search for words finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kope_tvm.outcome import Verdict, accept, refuse

MAX_CHARS = 1 << 16
ENTRY = "__transform_main"
"""The named sequence that MLIR's interpreter starts with."""

_STRUCTURE = frozenset(
    "transform." + name
    for name in (
        *("named_sequence", "yield", "foreach", "include", "match.operation_name", "cast"),
        *("merge_handles", "split_handle", "replicate", "select", "get_parent_op", "get_result"),
        *("get_producer_of_operand", "get_consumers_of_result", "get_defining_op", "get_operand"),
        *("param.constant", "num_associations", "annotate", "verify", "alternatives", "sequence"),
        *("apply_patterns", "apply_cse", "apply_dce", "apply_licm", "apply_registered_pass"),
        *("foreach_match", "collect_matching", "match.operation_empty", "match.param.cmpi"),
    )
)
_STRUCTURED = frozenset(
    "transform.structured." + name
    for name in (
        *("match", "tile_using_for", "tile_using_forall", "fuse", "fuse_into_containing_op"),
        *("tile_reduction_using_for", "split", "split_reduction", "multitile_sizes"),
        *("continuous_tile_sizes", "interchange", "generalize", "specialize", "decompose"),
        *("decompose_interface", "scalarize", "pad", "pad_tiling_interface", "hoist_pad"),
        *("hoist_pad.build_packing_loop_nest", "pack", "pack_greedily", "pack_transpose"),
        *("lower_pack", "lower_unpack", "vectorize", "vectorize_children_and_apply_patterns"),
        *("hoist_redundant_vector_transfers", "hoist_redundant_vector_broadcasts"),
        *("eliminate_empty_tensors", "flatten_elementwise", "transpose_matmul"),
        *("transpose_conv2d", "convert_conv2d_to_img2col", "insert_slice_to_copy"),
        *("rewrite_in_destination_passing_style",),
    )
)
_LOOPS = frozenset(
    "transform.loop." + name
    for name in (
        *("hoist_loop_invariant_subsets", "unroll", "unroll_and_jam", "peel", "coalesce"),
        *("fuse_sibling", "promote_if_one_iteration", "forall_to_for"),
    )
)
_PATTERNS = tuple(
    f"transform.apply_patterns.{name}" for name in ("vector.", "linalg.", "tensor.", "scf.")
)
_PLAIN_PATTERNS = frozenset({"transform.apply_patterns.canonicalization"})

OPS = _STRUCTURE | _STRUCTURED | _LOOPS | _PLAIN_PATTERNS
PASSES = frozenset(
    {
        *("canonicalize", "cse", "loop-invariant-code-motion", "loop-invariant-subset-hoisting"),
        *("linalg-generalize-named-ops", "linalg-fuse-elementwise-ops"),
        *("linalg-fold-unit-extent-dims", "linalg-specialize-generic-ops"),
    }
)
"""What `apply_registered_pass` may name: passes that keep to what the module computes."""

_WORD = re.compile(r"\btransform\.[a-z_0-9.]*[a-z_0-9]")
_GENERIC = re.compile(r'"([a-z_0-9]+\.[a-z_0-9.]+)"\s*\(')
_RESOURCES = ("{-#", "dense_resource", "#llvm", "llvm.", "irdl.", "pdl.", "func.func private")
_ATTRIBUTES = ("transform.with_named_sequence", "transform.readonly", "transform.consumed")


def may_say(op_name: str) -> bool:
    """Whether an op of a script is on the list."""
    return op_name in OPS or op_name.startswith(_PATTERNS)


def check_text(script: str) -> Verdict:
    """The first look, at the words alone."""
    if len(script) > MAX_CHARS:
        return _refused(f"{len(script)} characters, at most {MAX_CHARS}")
    if f"@{ENTRY}" not in script:
        return _refused(f"no named sequence @{ENTRY}")
    for word in _RESOURCES:
        if word in script:
            return _refused(f"{word!r} has no place in a script")
    return check_ops((*_words(script), *_GENERIC.findall(script)))


def check_ops(op_names: Iterable[str]) -> Verdict:
    """Refuses the first op that is not on the list."""
    for name in op_names:
        if not may_say(name):
            return _refused(f"{name} is not on the list of transform ops")
    return accept("script")


def check_module(module: Any) -> Verdict:
    """The second look, at the parsed `mlir.ir.Module` and all in it; runs in the worker."""
    names: list[str] = []
    for op in module.body.operations:
        if op.operation.name != "transform.named_sequence":
            return _refused(f"{op.operation.name} beside the named sequences")
        _collect(op.operation, names)
    return check_ops(names)


def _collect(op: Any, names: list[str]) -> None:
    names.append(op.name)
    if op.name == "transform.apply_registered_pass":
        names.append(_of_pass(op))
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _collect(inner.operation, names)


def _of_pass(op: Any) -> str:
    """The op's own name where its pass is on the list, else one that is on none."""
    named = str(op.attributes["pass_name"]).strip('"')
    options = str(op.attributes["options"]) if "options" in op.attributes else "{}"
    is_known = named in PASSES and options == "{}"
    return op.name if is_known else f"pass {named} {options if options != '{}' else ''}".strip()


def _words(script: str) -> list[str]:
    without_comments = re.sub(r"//[^\n]*", "", script)
    without_types = without_comments.replace("!transform.", "!")
    found = _WORD.findall(without_types)
    return [word for word in found if word not in _ATTRIBUTES]


def _refused(reason: str) -> Verdict:
    return refuse("script", "E_SCRIPT", reason)
