# SPDX-License-Identifier: Apache-2.0
"""A bench as one HTML file that needs nothing else, as Markdown, or as its picture alone."""

from __future__ import annotations

from markupsafe import Markup

from kope_tvm.report_page.bench_story import BenchStory
from kope_tvm.report_page.environment import html, markdown, style_sheet


def bench_html(story: BenchStory) -> str:
    """The page."""
    from kope_tvm.report_page.charts import ratios

    return html("bench.html.j2", story=story, chart=Markup(ratios(story)))


def bench_markdown(story: BenchStory) -> str:
    """The same numbers for a pull request."""
    return markdown("bench.md.j2", story=story)


def bench_picture(story: BenchStory) -> str:
    """The page's chart, an SVG of its own that a README can show by day and by night."""
    from kope_tvm.report_page.charts import ratios

    style = f"{style_sheet('theme')}svg {{ background: var(--card); }}"
    head, _, body = ratios(story).partition(">")
    return f"{head}><style>{style}</style>{body}\n"
