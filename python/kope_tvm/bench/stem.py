# SPDX-License-Identifier: Apache-2.0
"""File names for operator specs."""

from __future__ import annotations

import re


def file_stem(spec: str) -> str:
    """A file name for an operator spec; the usual dtype goes without saying."""
    told = spec.removeprefix("op:").removesuffix(",dtype=float32")
    return re.sub(r"[^A-Za-z0-9_=]+", "-", told)
