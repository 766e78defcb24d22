# SPDX-License-Identifier: Apache-2.0
"""The static texts of prompts, which lie beside this file as Markdown."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template


@cache
def text(name: str) -> str:
    """The text `<name>.md`, without its comment lines; empty where there is none."""
    path = files(__package__).joinpath(f"{name}.md")
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("<!--")).strip()


def filled(name: str, **values: object) -> str:
    """The text with `$name` replaced by each value."""
    return Template(text(name)).safe_substitute({key: str(one) for key, one in values.items()})
