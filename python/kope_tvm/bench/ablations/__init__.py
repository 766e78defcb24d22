# SPDX-License-Identifier: Apache-2.0
"""The ablations of `kope bench --without`: one file each, which provides `ABLATION`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from kope_tvm.bench.ablation import Ablation
from kope_tvm.errors import UsageError

_ALL = "all"


def names() -> tuple[str, ...]:
    """Sorted names, as they are typed."""
    return tuple(sorted(info.name.replace("_", "-") for info in iter_modules(__path__)))


def load(name: str) -> Ablation:
    """Raises UsageError for a name that is not there."""
    if name not in names():
        raise UsageError(f"unknown ablation {name!r}; known: {_ALL}, {', '.join(names())}")
    found: Ablation = import_module(f"{__name__}.{name.replace('-', '_')}").ABLATION
    return found


def chosen(wanted: tuple[str, ...], proposer: str) -> dict[str, Ablation]:
    """Those asked for by name; `all` are all that make a difference to this proposer.

    Raises UsageError for one that needs a model where there is none.
    """
    has_model = proposer in ("chat", "replay")
    if wanted == (_ALL,):
        every = {name: load(name) for name in names()}
        return {name: one for name, one in every.items() if has_model or not one.needs_model}
    found = {name: load(name) for name in wanted}
    for name, one in found.items():
        if one.needs_model and not has_model:
            raise UsageError(
                f"--without {name} changes nothing without a model: add --proposer chat, or "
                "--exchanges FOLDER to answer from stored exchanges"
            )
    return found
