# SPDX-License-Identifier: Apache-2.0
"""What kope remembers. Names load at first use: the nouns alone must not import a database."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kope_tvm.memory.experience import Experience, Recalled
    from kope_tvm.memory.graph import ExperienceGraph
    from kope_tvm.memory.index import ExperienceIndex
    from kope_tvm.memory.lessons import Lesson
    from kope_tvm.memory.memory import Memory
    from kope_tvm.memory.repairs import Fix
    from kope_tvm.memory.rows import experience_key
    from kope_tvm.memory.stats import Stats
    from kope_tvm.memory.store import Store
    from kope_tvm.memory.transitions import Transition

_HOMES = {
    "Experience": "experience",
    "ExperienceGraph": "graph",
    "ExperienceIndex": "index",
    "Fix": "repairs",
    "Lesson": "lessons",
    "Memory": "memory",
    "Recalled": "experience",
    "Stats": "stats",
    "Store": "store",
    "Transition": "transitions",
    "experience_key": "rows",
}

__all__ = [
    "Experience",
    "ExperienceGraph",
    "ExperienceIndex",
    "Fix",
    "Lesson",
    "Memory",
    "Recalled",
    "Stats",
    "Store",
    "Transition",
    "experience_key",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
