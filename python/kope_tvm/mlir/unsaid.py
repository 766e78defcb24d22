# SPDX-License-Identifier: Apache-2.0
"""What a schedule does beside the operations that its function was imported from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kope_tvm.mlir.nest import Stage


def unsaid(stages: Iterable[Stage], ops: Collection[str], said: Collection[str]) -> Iterator[str]:
    """A text for each block that is none of `ops` and that nothing in the script says, once."""
    return iter(dict.fromkeys(filter(None, (_unsaid(each.block, ops, said) for each in stages))))


def _unsaid(block: str, ops: Collection[str], said: Collection[str]) -> str:
    if block in ops or block in said or block.endswith("_init"):
        return ""
    of = max((op for op in ops if block.startswith(f"{op}_")), default="")
    if not of:
        return f"{block}: a copy of a parameter in another order or place (pack)"
    if block in (f"{of}_update", f"{of}_rf"):
        return ""
    return f"{block}: results of {of} in a place of their own; vectors hold them"
