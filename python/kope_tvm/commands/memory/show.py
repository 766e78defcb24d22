# SPDX-License-Identifier: Apache-2.0
"""`kope memory show`: the decision trees of a model's functions, or of tasks on record."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kope_tvm.commands.tune import parse_dims
from kope_tvm.console import json_option, show, table, work
from kope_tvm.errors import UsageError
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.graph_view.catalog import OnRecord
    from kope_tvm.graph_view.tree import DecisionTree
    from kope_tvm.memory.memory import Memory

_NOTHING = "nothing is remembered yet; `kope tune` records what it measures"


@click.command("show")
@click.argument("model", required=False)
@click.option(
    "--target",
    metavar="NAME",
    help="The machine; default: the host for a model, every machine for a task on record.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Decisions shown of a tree: what won, one failure of each kind, the fastest.",
)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Bind a dynamic dimension.")
@memory_option
@json_option
def command(
    model: str | None,
    target: str | None,
    limit: int,
    dims: Sequence[str],
    memory: str | None,
    as_json: bool,
) -> None:
    """Draw what was tried on MODEL, or on a task by its name or the start of its key.

    Without MODEL the tasks on record are listed.
    """
    bound = parse_dims(dims)
    with work(as_json=as_json), open_memory(memory) as opened:
        trees = () if model is None else _trees(opened, model, target, limit, bound)
        tasks = _on_record(opened) if model is None else ()
    if model is None:
        show({"tasks": tasks}, _spell_tasks(tasks), as_json=as_json)
    else:
        show({"model": model, "trees": trees}, "" if as_json else _drawn(trees), as_json=as_json)


def _on_record(opened: Memory) -> tuple[OnRecord, ...]:
    from kope_tvm.graph_view.catalog import on_record

    return on_record(opened.store)


def _spell_tasks(found: Sequence[OnRecord]) -> str:
    rows = [
        (
            *(one.task_key, one.task_name, one.op_class),
            *(one.num_decisions, one.num_failed, one.machine_key),
        )
        for one in found
    ]
    headers = ("KEY", "TASK", "CLASS", "TRIED", "FAILED", "MACHINE")
    return table(headers, rows) if rows else _NOTHING


def _trees(
    opened: Memory, model: str, target: str | None, limit: int, dims: dict[str, int]
) -> tuple[DecisionTree, ...]:
    from kope_tvm.graph_view.catalog import named
    from kope_tvm.graph_view.cut import cut
    from kope_tvm.graph_view.tree import decision_trees

    known = _on_record(opened)
    keys = [one.task_key for one in named(model, known)]
    machine_key = _machine_key(target) if target or not keys else None
    wanted = dict.fromkeys(keys or _keys_of_model(model, target, dims))
    found = [
        tree
        for key in wanted
        for tree in decision_trees(opened.graph(key), machine_key=machine_key)
    ]
    if not found:
        elsewhere = sorted({one.machine_key for one in known if one.task_key in wanted})
        raise UsageError(_missing(model, machine_key, elsewhere))
    return tuple(cut(tree, limit) for tree in found)


def _machine_key(target: str | None) -> str:
    from kope_tvm.machine import load_target

    return load_target(target or "host").key


def _keys_of_model(model: str, target: str | None, dims: dict[str, int]) -> list[str]:
    from kope_tvm.machine import load_target
    from kope_tvm.model import extract_tasks, load_model
    from kope_tvm.workbench import state_of

    tasks = extract_tasks(load_model(model, dims=dims), load_target(target or "host"))
    return list(dict.fromkeys(state_of(mod) for _, mod, _ in tasks))


def _missing(model: str, machine_key: str | None, elsewhere: Sequence[str]) -> str:
    if elsewhere:
        return (
            f"{model}: nothing is on record for {machine_key}, only for {', '.join(elsewhere)}; "
            "give --target, or the task by its name: `kope memory show` lists them"
        )
    return (
        f"{model}: nothing is on record for it; `kope tune` records what it measures, "
        "and `kope memory show` lists the tasks on record"
    )


def _drawn(trees: Sequence[DecisionTree]) -> str:
    from kope_tvm.graph_view.terminal import draw

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return draw(trees, columns=columns)
