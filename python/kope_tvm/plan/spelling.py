# SPDX-License-Identifier: Apache-2.0
"""Other spellings of steps that models write, and what is meant by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

PRIMITIVE_KEYS = ("do", "primitive", "op", "name")
"""The first of these that a step has names its primitive."""

IGNORED = frozenset(
    {"why", "comment", "note", "reason", "preserve_unit_iters", "preserve_unit_loops"}
)

PRIMITIVES = {
    "add_unit": "add_unit_loop",
    "decompose": "decompose_reduction",
    "inline": "compute_inline",
    "parallelize": "parallel",
    "reverse_inline": "reverse_compute_inline",
    "unroll_loop": "unroll",
    "vectorise": "vectorize",
}

ARGUMENTS = {
    "loop": ("loops", "axis", "loop_var", "iter"),
    "loops": ("loop", "order", "axes", "axis"),
    "factors": ("factor", "tile", "sizes"),
    "into": ("names", "new_names", "out", "outputs", "as"),
    "buffer": ("read_buffer", "write_buffer", "buffer_index", "buffer_name"),
    "scope": ("storage_scope",),
    "at": ("loop",),
    "of": ("at_block", "consumer", "producer", "target"),
    "map": ("index_map", "layout"),
    "pad": ("pad_value",),
    "padding": ("paddings",),
    "intrin": ("tensor_intrin", "intrinsic"),
    "thread": ("thread_axis",),
    "key": ("ann_key",),
    "value": ("ann_val",),
    "axis": ("factor_axis",),
}
"""TVM's own parameter names among them. One of them stands for an argument only where the primitive
has no argument called so."""


def canonical_primitive(name: str) -> str:
    """`Compute-At` and `vectorise` as the allow-list spells them."""
    spelt = name.strip().lower().replace("-", "_").removeprefix("sch.")
    return PRIMITIVES.get(spelt, spelt)


def canonical_arguments(given: Mapping[Any, Any], known: Collection[str]) -> dict[Any, Any]:
    """The same arguments under the names that the primitive has; unknown ones stay as they are."""
    found: dict[Any, Any] = {}
    for key, value in given.items():
        if key in IGNORED or value is None:
            continue
        found.setdefault(key if key in known else _meant(key, known), value)
    return found


def _meant(key: Any, known: Collection[str]) -> Any:
    return next((name for name in known if key in ARGUMENTS.get(name, ())), key)
