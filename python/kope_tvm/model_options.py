# SPDX-License-Identifier: Apache-2.0
"""The options of commands that may ask a language model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PROPOSERS = ("auto", "experience", "chat", "replay")

_Function = Callable[..., Any]
_OPTIONS = (
    click.option(
        "--proposer", default="auto", show_default=True, metavar="auto|experience|chat|replay"
    ),
    click.option(
        "--exchanges",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The record that --proposer replay answers from.",
    ),
    click.option("--max-tokens", type=click.IntRange(min=0), help="Most tokens of a chat model."),
    click.option(
        "--max-usd", type=click.FloatRange(min=0), help="Most US dollars for a chat model."
    ),
    click.option("--max-calls", type=click.IntRange(min=0), help="Most calls to a chat model."),
)


def model_options(function: _Function) -> _Function:
    """Who proposes, and what a model may cost."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
