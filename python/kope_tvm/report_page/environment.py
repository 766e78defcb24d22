# SPDX-License-Identifier: Apache-2.0
"""The templates of the pages, and what they share."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kope_tvm.graph_view.words import one_line
from kope_tvm.progress import spell_secs
from kope_tvm.report_page.bench_story import shortly


def html(template: str, **told: Any) -> str:
    """A page; what strangers wrote reaches it as text."""
    style = Markup(style_sheet("theme") + style_sheet("page"))
    return _environment(autoescape=True).get_template(template).render(style=style, **told)


def markdown(template: str, **told: Any) -> str:
    """Markdown, with one empty line at most where a part is missing."""
    text = _environment(autoescape=False).get_template(template).render(**told)
    lines = text.splitlines()
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
    return "\n".join(kept).strip() + "\n"


def style_sheet(name: str) -> str:
    """`theme`: the colours by day and by night; `page`: all that is laid out with them."""
    return files("kope_tvm.report_page").joinpath(f"{name}.css").read_text(encoding="utf-8")


def _environment(*, autoescape: bool) -> Environment:
    made = Environment(
        loader=PackageLoader("kope_tvm.report_page", ""),
        autoescape=autoescape,
        undefined=StrictUndefined,
    )
    made.filters.update(
        secs=spell_secs,
        shortly=shortly,
        line=lambda text: one_line(text).replace("|", "\\|").replace("<", "&lt;"),
    )
    return made
