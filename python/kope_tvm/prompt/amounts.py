# SPDX-License-Identifier: Apache-2.0
"""Numbers with units, three digits at most: each digit is a token."""

from __future__ import annotations

_SECS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def three_digits(value: float) -> str:
    """Three significant digits, without trailing zeros after the point."""
    if value == 0:
        return "0"
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e" in text and abs(value) >= 1 else text


def shown_secs(secs: float) -> str:
    """A time in the unit that leaves one to three digits before the point."""
    scale, unit = next((one for one in _SECS if secs >= one[0]), _SECS[-1])
    return f"{three_digits(secs / scale)} {unit}"


def shown_bytes(num_bytes: float) -> str:
    """A size in binary units."""
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= scale:
            return f"{three_digits(num_bytes / scale)} {unit}"
    return f"{three_digits(num_bytes)} B"


def shown_count(count: float) -> str:
    """A count in powers of a thousand."""
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= scale:
            return f"{three_digits(count / scale)} {unit}"
    return three_digits(count)
