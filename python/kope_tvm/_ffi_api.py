# SPDX-License-Identifier: Apache-2.0
"""Loads libkope_passes and names its global functions; imported where one is first needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import tvm_ffi

import kope_tvm
from kope_tvm.errors import KopeError

LIBRARY_NAME = "libkope_passes.so"


def find_library(package_path: Iterable[str]) -> Path:
    """Find the library in the package's folders: an editable install has two of them."""
    places = [Path(folder) / "lib" / LIBRARY_NAME for folder in package_path]
    for place in places:
        if place.is_file():
            return place
    looked = ", ".join(str(place.parent) for place in places)
    raise KopeError(
        f"{LIBRARY_NAME} is not in {looked}; expected the installed package to bring it: "
        "`pip install kope-tvm`, or `make lib` in a checkout"
    )


# Kept for the life of the process: the functions registered by it are code in it.
_LIBRARY = ctypes.CDLL(str(find_library(kope_tvm.__path__)))


@cache
def function(name: str) -> Callable[..., Any]:
    """`kope.<name>`, as `passes/ffi/register.cc` registers it."""
    found: Callable[..., Any] = tvm_ffi.get_global_func(f"kope.{name}")
    return found


def features(node: Any) -> tuple[Any, ...]:
    """`kope.features`: the fields of `kope_tvm.task.Features` in their order."""
    return tuple(function("features")(node))
