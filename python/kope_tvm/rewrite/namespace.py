# SPDX-License-Identifier: Apache-2.0
"""What `T` is while a rewrite is parsed: the allowed constructs and no other attribute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tvm.script import tirx

from kope_tvm.rewrite import constructs

_OTHERS = frozenset(
    {"Buffer", "handle", "match_buffer", "sblock_alloc_buffer", "let"}
    | {"sblock", "init", "reads", "writes", "where"}
)
_AXES = ("spatial", "reduce", "remap")


def restricted() -> SimpleNamespace:
    """The second line of defence: were the check to fail, nothing else could be reached by `T`."""
    names = constructs.VALUES | constructs.LOOPS.keys() | _OTHERS
    axis = SimpleNamespace(**{name: getattr(tirx.axis, name) for name in _AXES})
    allowed = {name: getattr(tirx, name) for name in names}
    return SimpleNamespace(**allowed, axis=axis, prim_func=_prim_func)


def _prim_func(**_keywords: Any) -> SimpleNamespace:
    """Stands for TVM's decorator, which reads the source of every caller up the stack.

    The parser asks it for the dialect only and takes the keywords from the tree.
    """
    return SimpleNamespace(dispatch_token="tirx")
