# SPDX-License-Identifier: Apache-2.0
"""Taking secrets out of what is written down or shown."""

from __future__ import annotations

import re

from kope_tvm.config import without_credentials

HIDDEN = "***"

_LEAST_KEY_CHARS = 8
"""Shorter ones are stand-ins such as `none`; to hide those would garble the text around them."""

_SHAPES = (
    re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic)\s+)?[^\s\"',}]+"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"()\bsk-[A-Za-z0-9_-]{8,}"),
)


def without_secrets(text: str, key: str = "") -> str:
    """A text less the key, passwords in URLs, authorization headers and what looks like a key."""
    if len(key) >= _LEAST_KEY_CHARS:
        text = text.replace(key, HIDDEN)
    for shape in _SHAPES:
        text = shape.sub(rf"\g<1>{HIDDEN}", text)
    return without_credentials(text)
