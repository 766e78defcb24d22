# SPDX-License-Identifier: Apache-2.0
"""`kope memory recall`: what would be recalled for a model, function by function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kope_tvm.commands.tune import parse_dims
from kope_tvm.console import json_option, show, table, work
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.memory.experience import Recalled

_NOTHING = "nothing is remembered that would help; `kope tune` records what it measures"
_FACTORS = (
    "TASK", "SCORE", "TASK SIM", "MACHINE SIM", "VALUE", "Q_VALID", "Q_FAST", "FRESH", "TOKENS",
    "SPACE", "WHY",
)  # fmt: skip


@click.command("recall")
@click.argument("model")
@click.option("--target", default="host", show_default=True, metavar="NAME")
@click.option("--limit", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Bind a dynamic dimension.")
@click.option("--why", is_flag=True, help="Show what makes up each score.")
@memory_option
@json_option
def command(
    model: str,
    target: str,
    limit: int,
    dims: Sequence[str],
    why: bool,
    memory: str | None,
    as_json: bool,
) -> None:
    """Show what would be recalled for each function of MODEL."""
    bound = parse_dims(dims)
    with work(as_json=as_json):
        found = _recalled(model, target, limit, bound, memory)
    text = _spell_factors(found) if why else _spell(found)
    show({"model": model, "tasks": found}, text, as_json=as_json)


def _recalled(
    model: str, target: str, limit: int, dims: dict[str, int], memory: str | None
) -> dict[str, tuple[Recalled, ...]]:
    from kope_tvm.machine import load_target
    from kope_tvm.model import extract_tasks, load_model
    from kope_tvm.workbench import make_task

    spec = load_target(target)
    tasks = extract_tasks(load_model(model, dims=dims), spec)
    with open_memory(memory) as opened:
        return {
            name: opened.recall(make_task(name, mod, spec, weight), limit)
            for name, mod, weight in tasks
        }


def _spell(found: dict[str, tuple[Recalled, ...]]) -> str:
    rows = [_row(name, one) for name, each in found.items() for one in each]
    return table(("TASK", "SIMILAR", "VALUE", "LANE", "FROM", "WHY"), rows) if rows else _NOTHING


def _row(name: str, one: Recalled) -> tuple[str, ...]:
    source = one.experience
    likeness = (f"{one.similarity:.2f}", f"{one.value:.2f}")
    return (name, *likeness, source.lane, source.task_name, one.why)


def _spell_factors(found: dict[str, tuple[Recalled, ...]]) -> str:
    rows = [_factors(name, one) for name, each in found.items() for one in each]
    return table(_FACTORS, rows) if rows else _NOTHING


def _factors(name: str, one: Recalled) -> tuple[str, ...]:
    source, why = one.experience, one.factors
    assert why is not None
    return (
        name,
        f"{why.score:.3f}",
        f"{why.task_similarity:.2f}",
        f"{why.machine_similarity:.2f}",
        f"{one.value:.2f}",
        f"{why.q_valid:.2f}",
        f"{why.q_fast:.2f}",
        f"{why.freshness:.2f}",
        f"{why.tokens}",
        source.space or source.lane,
        one.why,
    )
