# SPDX-License-Identifier: Apache-2.0
"""`kope memory export`: the graph as JSONL to keep, GraphML to analyse, or a page to look at."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOBase
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.errors import StorageError, UsageError
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.graph_view.catalog import OnRecord
    from kope_tvm.memory.memory import Memory

_SUFFIXES = {".jsonl": "jsonl", ".graphml": "graphml", ".html": "html", ".htm": "html"}
_PAGE_TOTAL = 20_000
"""Decisions on one page; more of them make a file that browsers are slow to open."""


@dataclass(frozen=True)
class Exported:
    """What was written where."""

    file: str
    format: str
    tasks: int
    decisions: int
    left_out: int
    """Decisions that a page has no room for."""


@click.command("export")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "graphml", "html"]),
    help="Default: by the file's suffix.",
)
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Or the start of a key.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="Decisions of one tree on a page.",
)
@memory_option
@json_option
def command(
    output: Path,
    form: str | None,
    tasks: Sequence[str],
    limit: int,
    memory: str | None,
    as_json: bool,
) -> None:
    """Write the experience graph into FILE: .jsonl, .graphml or .html."""
    form = form or _SUFFIXES.get(output.suffix.lower())
    if form is None:
        raise UsageError(f"{output}: give a name that ends in {', '.join(_SUFFIXES)}, or --format")
    with work(as_json=as_json), open_memory(memory) as opened:
        chosen = _chosen(opened, tasks)
        with _replaced(output) as part:
            done = Exported(str(output), form, *_WRITERS[form](opened, chosen, part, limit))
    show(done, _spell(done), as_json=as_json)


Written = tuple[int, int, int]
"""Tasks, decisions, decisions that are left out."""


def _chosen(opened: Memory, tasks: Sequence[str]) -> tuple[OnRecord, ...]:
    from kope_tvm.graph_view.catalog import named, on_record

    found = on_record(opened.store)
    if not tasks:
        return found
    for task in tasks:
        if not named(task, found):
            raise UsageError(
                f"--task {task}: no task on record has this name or a key that starts like this; "
                "`kope memory show` lists them"
            )
    return tuple(dict.fromkeys(one for task in tasks for one in named(task, found)))


def _write_jsonl(opened: Memory, chosen: Sequence[OnRecord], path: Path, _: int) -> Written:
    from kope_tvm.memory.portable import write_jsonl

    keys = {one.task_key for one in chosen}
    with path.open("w", encoding="utf-8") as file:
        is_all = keys == {one.task_key for one in _chosen(opened, ())}
        write_jsonl(opened.store, file if is_all else cast(TextIO, _OnlyTasks(file, keys)))
    return len(keys), sum(one.num_decisions for one in chosen), 0


class _OnlyTasks(TextIOBase):
    """Lets through to a file what is about some tasks; lessons speak of all of them."""

    def __init__(self, file: TextIO, keys: set[str]) -> None:
        self._file, self._keys = file, keys

    def write(self, line: str) -> int:
        """Write a line of JSONL, or not."""
        ((kind, value),) = json.loads(line).items()
        key = {"task": value.get("key"), "experience": value.get("task_key")}.get(kind)
        is_kept = kind != "lesson" if key is None else key in self._keys
        return self._file.write(line) if is_kept else len(line)


def _write_graphml(opened: Memory, chosen: Sequence[OnRecord], path: Path, _: int) -> Written:
    from kope_tvm.graph_view.graphml import write_graphml
    from kope_tvm.memory.graph import ExperienceGraph

    graph, keys = ExperienceGraph(), dict.fromkeys(one.task_key for one in chosen)
    for key in keys:
        for experience in opened.store.experiences(task_key=key):
            graph.add(experience)
    write_graphml(graph, path)
    return len(keys), sum(1 for _ in graph.decisions()), 0


def _write_html(opened: Memory, chosen: Sequence[OnRecord], path: Path, limit: int) -> Written:
    from kope_tvm.graph_view.cut import cut, fair_share
    from kope_tvm.graph_view.page import html_page
    from kope_tvm.graph_view.tree import decision_trees

    share = fair_share((one.num_decisions for one in chosen), limit, _PAGE_TOTAL)
    keys = dict.fromkeys(one.task_key for one in chosen)
    trees = [cut(tree, share) for key in keys for tree in decision_trees(opened.graph(key))]
    path.write_text(html_page(trees), encoding="utf-8")
    hidden = sum(tree.num_hidden for tree in trees)
    return len(keys), sum(len(tree.branches) for tree in trees), hidden


_WRITERS: dict[str, Callable[[Memory, Sequence[OnRecord], Path, int], Written]] = {
    "jsonl": _write_jsonl,
    "graphml": _write_graphml,
    "html": _write_html,
}


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file beside it that takes its place at the end, so that a break leaves the old one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}; give -o a place to write"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _spell(done: Exported) -> str:
    left_out = f", {done.left_out} of least value left out" if done.left_out else ""
    return f"{done.file}: {done.decisions} decisions of {done.tasks} tasks{left_out}"
