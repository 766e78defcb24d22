# SPDX-License-Identifier: Apache-2.0
"""What a prompt consists of: one section a file, found by listing this folder.

A section has an `ORDER` in the prompt, a `TITLE` (empty where it goes into the system message) and
a function `items` that answers its pieces for a `View`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import View


class Section(Protocol):
    """One file of this folder."""

    ORDER: int
    TITLE: str

    def items(self, view: View) -> Iterable[Item]: ...


@cache
def sections() -> tuple[tuple[str, Section], ...]:
    """Every section with its file's name, in the order of the prompt."""
    names = [info.name for info in iter_modules(__path__)]
    found = [(name, cast(Section, import_module(f"{__name__}.{name}"))) for name in names]
    return tuple(sorted(found, key=lambda pair: (pair[1].ORDER, pair[0])))
