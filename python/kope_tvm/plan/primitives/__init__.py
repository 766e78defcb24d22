# SPDX-License-Identifier: Apache-2.0
"""The allow-list: every `PRIMITIVES` of this folder's files, one file a family."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from kope_tvm.plan.primitive import Primitive


@cache
def primitives() -> Mapping[str, Primitive]:
    """Every primitive that a plan may use, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = [one for module in modules for one in module.PRIMITIVES]
    return MappingProxyType({one.name: one for one in sorted(found, key=lambda one: one.name)})
