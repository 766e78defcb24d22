# SPDX-License-Identifier: Apache-2.0
"""The suites of `kope bench`, found by listing: `<name>.py` provides `run(wanted)`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import UsageError

OPERATOR = "op:"
"""A spec in place of a suite's name is benched as suite `quick` benches each of its own."""


def names() -> tuple[str, ...]:
    """Sorted names of the suites."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def run(wanted: Wanted) -> None:
    """Bench the suite, print its table, keep its figures where asked.

    Raises UsageError for a suite that is not there.
    """
    name = "quick" if wanted.suite.startswith(OPERATOR) else wanted.suite
    if name not in names():
        raise UsageError(
            f"unknown suite {name!r}; suites: {', '.join(names())}, or an {OPERATOR}... spec"
        )
    import_module(f"{__name__}.{name}").run(wanted)
