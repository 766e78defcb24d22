# SPDX-License-Identifier: Apache-2.0
"""The same function in float64: what all others are compared with."""

from __future__ import annotations

import re
import struct

_HEX = re.compile(r"\b0x([0-9A-Fa-f]{8}) : f32\b|\b0x([0-9A-Fa-f]{4}) : f16\b")
_NARROW = re.compile(r"(?<![A-Za-z0-9_@%#])((?:\d+x)*)(?:f32|f16|bf16)\b")


def in_float64(text: str) -> str:
    """MLIR text whose every float is a float64; bit patterns become the numbers they are."""
    return _NARROW.sub(r"\1f64", _HEX.sub(_number, text))


def _number(found: re.Match[str]) -> str:
    digits, code = (found[1], ">f") if found[1] else (found[2], ">e")
    (value,) = struct.unpack(code, bytes.fromhex(digits))
    return f"0x{struct.pack('>d', value).hex().upper()} : f64"
