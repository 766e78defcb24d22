# SPDX-License-Identifier: Apache-2.0
"""Auto-tuning that learns, for Apache TVM: the public names, imported when they are used."""

from __future__ import annotations

import importlib
from typing import Any

from kope_tvm.versions import check_versions

_PUBLIC = {
    "KopeStrategy": "kope_tvm.strategy",
    "KopeBuilder": "kope_tvm.measure.builder_runner",
    "KopeRunner": "kope_tvm.measure.builder_runner",
    "tune": "kope_tvm.tuning",
    "compile": "kope_tvm.model_gate",
    "load_target": "kope_tvm.machine",
    "TargetSpec": "kope_tvm.target",
}

_MODULES = ("transform",)

__all__ = sorted((*_PUBLIC, *_MODULES))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kope_tvm' has no attribute {name!r}; it has {__all__}")
    check_versions()
    if name in _MODULES:
        return importlib.import_module(f"kope_tvm.{name}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
