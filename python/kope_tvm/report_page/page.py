# SPDX-License-Identifier: Apache-2.0
"""A story as one HTML file that needs nothing else, or as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from kope_tvm.graph_view.words import spell_summary
from kope_tvm.report_page.branches import entries
from kope_tvm.report_page.environment import html, markdown
from kope_tvm.report_page.story import Story, TaskStory


@dataclass(frozen=True)
class Cost:
    """What all runs of a work_dir took together."""

    wall_secs: float
    own_share: float
    tokens: int
    calls: int
    usd: float


def html_page(story: Story) -> str:
    """The page; what strangers wrote reaches it as text."""
    from kope_tvm.report_page.charts import curves, roofline

    roof = roofline(story.tasks, story.roof.all_cores) if story.roof else ""
    return html(
        "story.html.j2",
        curves=Markup(curves(story.tasks)),
        roofline=Markup(roof),
        trees=[(task, spell_summary(task.tree), *entries(task.tree)) for task in story.tasks],
        **_told(story),
    )


def markdown_page(story: Story) -> str:
    """The same numbers for a pull request."""
    return markdown("story.md.j2", **_told(story))


def _told(story: Story) -> dict[str, Any]:
    commands = dict.fromkeys(run.call.command for run in story.runs if run.call.command)
    newest = story.tasks[0].tree.branches[-1].experience
    return {
        "story": story,
        "machine": story.tasks[0].tree.machine_key,
        "toolchain": newest.toolchain,
        "cost": _cost(story),
        "commands": "\n".join(commands),
        "endings": {task.tree.task_key: _ending(task) for task in story.tasks},
    }


def _cost(story: Story) -> Cost:
    costs = [run.cost for run in story.runs if run.cost]
    wall = sum(cost.wall_secs for cost in costs)
    return Cost(
        wall_secs=wall,
        own_share=sum(cost.own_secs for cost in costs) / wall if wall else 0.0,
        tokens=sum(cost.spent.tokens for cost in costs),
        calls=sum(cost.spent.calls for cost in costs),
        usd=sum(cost.spent.usd for cost in costs),
    )


def _ending(task: TaskStory) -> str:
    """In a word or two, what became of it."""
    found = task.comparison
    if found is None:
        return "not settled"
    if found.accepted:
        return "replaced"
    doubts = ("suspicious", found.suspicious), ("not proved", not found.correct)
    why = [word for word, is_so in doubts if is_so] or [f"needs {found.needed:.2f}x"]
    return f"untuned stays: {', '.join(why)}"
