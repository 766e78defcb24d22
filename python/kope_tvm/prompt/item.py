# SPDX-License-Identifier: Apache-2.0
"""A piece of a prompt, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """Lines that are shown together or not at all."""

    text: str
    value: float = 1.0
    """Expected use to the model, in arbitrary units; packing divides it by the tokens."""
    required: bool = False
    """Packed before everything that is not, and cut line by line where even that is too much."""


def required(text: str) -> Item:
    """An item that no prompt goes without."""
    return Item(text, required=True)
