# SPDX-License-Identifier: Apache-2.0
"""Finds the implementations of a seam: built-ins by listing their folder, strangers by entry point.

A file `<folder>/<name>.py` provides the class named after it (`dot_product.py`: `DotProduct`), or,
for schedule rules, the function `schedule`. It is imported when it is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kope_tvm.errors import UsageError

SEAMS = ("proposers", "gates", "schedules", "exporters")
_RULE = re.compile(r".+_(x86|rvv|cuda|arm|generic)")
"""A schedule rule is called `<op>_<isa>`; other files in `schedules/` are what rules share."""


def names(seam: str) -> tuple[str, ...]:
    """Sorted names of everything that implements `seam`."""
    return tuple(sorted({*_builtins(seam), *_strangers(seam)}))


def load(seam: str, name: str) -> Any:
    """The class or function registered as `name`.

    Raises UsageError for a name that is not there, listing those that are.
    """
    if name in _builtins(seam):
        module = importlib.import_module(f"kope_tvm.{seam}.{name}")
        return getattr(module, _attribute(seam, name))
    stranger = _strangers(seam).get(name)
    if stranger is None:
        known = ", ".join(names(seam))
        raise UsageError(
            f"unknown {seam[:-1]} {name!r}; known: {known}; "
            f"a package can add one with an entry point in group 'kope_tvm.{seam}'"
        )
    return stranger.load()


def _attribute(seam: str, name: str) -> str:
    if seam == "schedules":
        return "schedule"
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def _builtins(seam: str) -> frozenset[str]:
    package = importlib.import_module(f"kope_tvm.{seam}")
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return frozenset(name for name in found if seam != "schedules" or _RULE.fullmatch(name))


@cache
def _strangers(seam: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=f"kope_tvm.{seam}"):
        if entry.name in found or entry.name in _builtins(seam):
            raise UsageError(
                f"two {seam} are named {entry.name!r}: {entry.value} and another; rename one"
            )
        found[entry.name] = entry
    return found
