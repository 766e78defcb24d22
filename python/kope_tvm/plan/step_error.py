# SPDX-License-Identifier: Apache-2.0
"""Why a step is illegal; raised and caught inside the plan lane, which answers with a Verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = 40
_LONGEST = 320


class StepError(Exception):
    """One argument of a step is at fault."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(reason)
        self.argument = argument
        self.reason = reason


def sentence(number: int, primitive: str, args: Mapping[Any, Any], error: StepError) -> str:
    """`step 3 split(loop='k'): factors multiply to 28, the loop extent is 32`; 1 is the first."""
    name = error.argument
    at_fault = f"{name}={shown(args[name])}" if name in args else name
    where = f"step {number} {primitive}{f'({at_fault})' if name else ''}"
    return f"{where}: {error.reason}"[:_LONGEST]


def shown(value: object) -> str:
    """A value from outside in at most some forty characters, however large or deep it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return _shown_list(value)
    return f"an object of {len(value)} keys" if isinstance(value, dict) else type(value).__name__


def _shown_list(values: list[object] | tuple[object, ...]) -> str:
    is_flat = all(value is None or isinstance(value, str | int | float) for value in values[:8])
    if len(values) <= 8 and is_flat:
        text = f"[{', '.join(shown(value) for value in values)}]"
        if len(text) <= 2 * _SHOWN:
            return text
    return f"a list of {len(values)}"
