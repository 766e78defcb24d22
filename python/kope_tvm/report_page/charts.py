# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG elements for a page that colours them by its own theme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log10
from typing import Any
from xml.etree import ElementTree

import pygal
from pygal.style import Style

from kope_tvm.feedback.rates import Rates
from kope_tvm.report_page.bench_story import BenchStory, shortly
from kope_tvm.report_page.story import TaskStory

_MOST_CURVES = 8
_NO_PEERS = ("kope", "untuned")
"""Kope's own earlier trials, and what would dwarf every peer."""
_SVG = "http://www.w3.org/2000/svg"
_COLOURS = tuple(f"var(--c{number})" for number in range(1, _MOST_CURVES + 1))
_THEME = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--soft)",
    foreground_strong="var(--ink)",
    foreground_subtle="var(--rule)",
    opacity="1",
    opacity_hover="1",
    transition="0s",
    colors=_COLOURS,
    font_family="system-ui, sans-serif",
    label_font_size=14,
    major_label_font_size=14,
    legend_font_size=14,
    title_font_size=15,
)
_SETTINGS: dict[str, Any] = {
    "style": _THEME,
    "js": (),
    "width": 720,
    "height": 380,
    "legend_at_bottom": True,
    "legend_at_bottom_columns": 2,
    "margin": 12,
    "dots_size": 2.5,
    "show_y_guides": True,
    "truncate_legend": 40,
    "no_data_text": "nothing measured",
}


@dataclass(frozen=True)
class Dot:
    """A function under the roof."""

    name: str
    intensity: float
    """FLOP a byte."""
    flops_per_sec: float


def curves(tasks: Sequence[TaskStory]) -> str:
    """How many times as fast as untuned the best was after each trial, task by task."""
    chart = pygal.XY(x_title="trial", y_title="times as fast as untuned", **_SETTINGS)
    for task in tasks[:_MOST_CURVES]:
        untuned = task.tree.baseline_secs
        points = [(0, 1.0)] if untuned else []
        known = ((number, secs) for number, secs in enumerate(task.curve, 1) if secs < inf)
        points += [(number, untuned / secs) for number, secs in known if untuned]
        chart.add(task.name, _stepped(points))
    return _inline(chart, "Best so far by trial")


def roofline(tasks: Iterable[TaskStory], roof: Rates) -> str:
    """The best of every task under the machine's roof, both axes by powers of ten."""
    dots = [
        Dot(task.name, task.features.intensity, task.features.flops / task.best_secs)
        for task in tasks
        if task.features.intensity > 0 and isfinite(task.best_secs)
    ]
    bandwidth = max((rate for _, rate in roof.bandwidths), default=0.0)
    rates = roof.flops_per_sec
    peak = rates.get("float32") or max(rates.values(), default=0.0)
    line = _roof(bandwidth, peak, dots) if bandwidth and peak else []
    marks = [*line, *((log10(dot.intensity), log10(dot.flops_per_sec)) for dot in dots)]
    chart = pygal.XY(
        x_title="FLOP a byte of parameters",
        y_title="GFLOP/s",
        x_value_formatter=_power,
        value_formatter=lambda value: _power(value - 9),
        x_labels=_decades(x for x, _ in marks),
        y_labels=_decades(y for _, y in marks),
        **{**_SETTINGS, "dots_size": 5},
    )
    chart.add("roof, float32", line, show_dots=False)
    for dot in dots[: _MOST_CURVES - 1]:
        chart.add(dot.name, [(log10(dot.intensity), log10(dot.flops_per_sec))], stroke=False)
    return _inline(chart, "Functions under the machine's roof")


def ratios(story: BenchStory) -> str:
    """A bar a peer and operator, by powers of ten: 1 is as fast as the peer."""
    rows = story.rows[::-1]
    peers = [peer for peer in story.peers if not peer.startswith(_NO_PEERS)]
    found = {peer: [log10(row.ratios.get(peer) or 1.0) for row in rows] for peer in peers}
    chart = pygal.HorizontalBar(
        x_labels=[shortly(row.spec) for row in rows],
        y_labels=_decades(one for values in found.values() for one in values),
        value_formatter=_power,
        zero=0.0,
        **{**_SETTINGS, "width": 960, "height": 120 + 18 * len(rows) * max(1, len(peers))},
    )
    for peer, values in found.items():
        chart.add(peer, values)
    return _inline(chart, "How many times as fast kope is, by operator and peer")


def _roof(bandwidth: float, peak: float, dots: Sequence[Dot]) -> list[tuple[float, float]]:
    ridge = peak / bandwidth
    seen = [dot.intensity for dot in dots]
    least = 10.0 ** floor(log10(min((*seen, ridge)) / 2))
    most = 10.0 ** ceil(log10(max((*seen, ridge)) * 2))
    edge = [(least, least * bandwidth), (ridge, peak), (most, peak)]
    return [(log10(x), log10(y)) for x, y in edge]


def _decades(values: Iterable[float]) -> list[float]:
    """Powers of ten around them, with a third one between two where there are few."""
    known = [*values] or [0.0]
    least, most = floor(min(known)), ceil(max(known))
    parts = (0.0,) if most - least > 3 else (0.0, log10(2), log10(5))
    marks = [least + n + part for n in range(most - least) for part in parts] + [float(most)]
    first = max(mark for mark in marks if mark <= min(known))
    last = min(mark for mark in marks if mark >= max(known))
    return [mark for mark in marks if first <= mark <= last]


def _stepped(points: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    """The corners of a curve that holds its value until the next trial."""
    corners: list[tuple[float, float]] = []
    for number, value in points:
        if corners and corners[-1][1] != value:
            corners.append((number, corners[-1][1]))
        corners.append((number, value))
    return corners


def _power(value: float) -> str:
    return f"{10.0**value:.3g}"


def _inline(chart: Any, label: str) -> str:
    """The chart without its scripts, as an image with a name for those who do not see it."""
    root = chart.render_tree()
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag in {"script", f"{{{_SVG}}}script"}:
                parent.remove(child)
    root.attrib.update({"role": "img", "aria-label": label})
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")
