# SPDX-License-Identifier: Apache-2.0
"""The versions of what a figure depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version

_PACKAGES = ("kope-tvm", "apache-tvm", "apache-tvm-ffi", "onnxruntime", "numpy", "xgboost")


def versions() -> dict[str, str]:
    """By package; those that are not installed are left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except ImportError:
            continue
    return found
