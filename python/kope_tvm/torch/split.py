# SPDX-License-Identifier: Apache-2.0
"""A torch module as parts, as TVM would fuse them: an operator and what is pointwise after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

from kope_tvm.errors import ModelError

_FOLLOWS = frozenset({"aten.batch_norm", "aten.clone", "aten.contiguous", "aten.dropout"})
"""Neither pointwise nor views by their tags, and fused with what they read all the same."""


@dataclass(frozen=True)
class Piece:
    """One part: a graph without state, and the tensors that it was called with."""

    name: str
    """Of the submodule in the split graph."""
    graph: Any
    inputs: tuple[Any, ...]
    constants: Mapping[int, Any]
    """Parameters and buffers among the inputs, by position."""

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(_operator(node) for node in self.graph.graph.nodes if _is_call(node))

    @property
    def is_single(self) -> bool:
        """Whether it returns a tensor, not several."""
        (output,) = (node for node in self.graph.graph.nodes if node.op == "output")
        return not isinstance(output.args[0], tuple | list)

    @property
    def computes(self) -> bool:
        """Whether anything is done but looking at the same elements otherwise."""
        return any(_is_call(n) and not _is_view(n) for n in self.graph.graph.nodes)


@dataclass(frozen=True)
class Split:
    """The whole graph, calling its parts one by one."""

    graph: Any
    pieces: tuple[Piece, ...]
    inputs: tuple[Any, ...]
    """The example's tensors, flat."""
    call_spec: Any
    """How a caller's arguments become the graph's, and its outputs the caller's."""


def split(module: Any, example: tuple[Any, ...]) -> Split:
    """Export `module` and cut it up; raises ModelError where torch cannot export it."""
    try:
        exported = torch.export.export(module.eval(), example)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{type(module).__name__}: torch.export cannot take it: {str(error).splitlines()[0]}"
        ) from error
    whole = exported.module(check_guards=False)
    groups = _groups(whole.graph.nodes)
    graph = split_module(whole, whole, lambda node: groups.get(node, 0))
    flat = torch.utils._pytree.tree_leaves((example, {}))
    return Split(graph, _pieces(graph, flat), tuple(flat), exported.call_spec)


def _groups(nodes: Any) -> dict[Any, int]:
    """The number of each call's part; no part reads of a later one."""
    found: dict[Any, int] = {}
    last = 0
    for node in nodes:
        if not _is_call(node):
            continue
        before = [found[each] for each in node.all_input_nodes if each in found]
        if before and _follows(node):
            found[node] = max(before)
        else:
            last += 1
            found[node] = last
    return found


def _is_call(node: Any) -> bool:
    return bool(node.op == "call_function")


def _operator(node: Any) -> str:
    return str(node.target).rpartition(".")[0] or str(node.target)


def _is_view(node: Any) -> bool:
    return bool(getattr(node.target, "is_view", False))


def _follows(node: Any) -> bool:
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return is_pointwise or _is_view(node) or _operator(node) in _FOLLOWS


def _pieces(graph: Any, inputs: Sequence[Any]) -> tuple[Piece, ...]:
    """Runs the graph once and keeps what every part was called with."""
    seen: list[Piece] = []

    class Watch(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            if node.op == "call_module":
                args, _ = self.fetch_args_kwargs_from_env(node)
                constants = {i: args[i] for i, n in enumerate(node.args) if n.op == "get_attr"}
                piece = self.fetch_attr(node.target)
                seen.append(Piece(node.target, piece, tuple(args), constants))
            return super().run_node(node)

    with torch.no_grad():
        Watch(graph).run(*inputs)
    return tuple(seen)
