# SPDX-License-Identifier: Apache-2.0
"""ONNX operators that TVM's importer lacks or gets wrong: one file a family, found by listing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from kope_tvm.onnx_ops.converter import Converter


@cache
def known_converters() -> Mapping[str, type[Converter]]:
    """Every converter of ours by the qualified name of its operator, `domain::Operator`."""
    families = (import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__))
    found = [each for family in families for each in getattr(family, "CONVERTERS", ())]
    return {operator: each for each in found for operator in each.operators}
