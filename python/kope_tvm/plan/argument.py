# SPDX-License-Identifier: Apache-2.0
"""What a step's arguments may be: each kind reads one untrusted JSON value or says what it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kope_tvm.plan.step_error import StepError, shown

Reader = Callable[[object], object]

MOST_LOOPS = 16
_LARGEST = 2**31 - 1
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_.]{0,63}")
_NEW_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Argument:
    """One argument of a primitive."""

    name: str
    read: Reader
    """Raises StepError."""
    is_required: bool = True


def name(value: object) -> str:
    """The name of a block, a buffer or a loop."""
    given = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(given, str) and _NAME.fullmatch(given.strip()):
        return given.strip()
    raise StepError("", f"expected a name of letters, digits and _, got {shown(value)}")


def new_name(value: object) -> str:
    """One identifier that the step gives."""
    given = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(given, str) and _NEW_NAME.fullmatch(given):
        return given
    raise StepError("", f"expected one identifier of at most 64 characters, got {shown(value)}")


def new_names(value: object) -> list[str]:
    """Identifiers that the step gives, one a loop."""
    given = _listed(value)
    found = [new_name(one) for one in given]
    if len(set(found)) < len(found):
        raise StepError("", f"one name twice: {shown(value)}")
    return found


def names(value: object) -> list[str]:
    """Names of loops, outermost first."""
    found = [name(one) for one in _listed(value)]
    twice = next((one for one in found if found.count(one) > 1), None)
    if twice:
        raise StepError("", f"names {twice!r} twice")
    return found


def _listed(value: object) -> list[object]:
    if isinstance(value, str):
        return [part.strip() for part in value[:1000].split(",")]
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_LOOPS:
        raise StepError("", f"expected a list of 1 to {MOST_LOOPS} names, got {shown(value)}")
    return value


def factors(value: object) -> list[int]:
    """Factors of a split; -1, or null, is what the others leave."""
    given = value if isinstance(value, list) else [value]
    if not 1 <= len(given) <= MOST_LOOPS:
        raise StepError("", f"expected a list of 2 to {MOST_LOOPS} factors, got {shown(value)}")
    found = [-1 if one is None else whole(one, -1, _LARGEST) for one in given]
    if 0 in found or found.count(-1) > 1:
        raise StepError(
            "", f"expected positive factors, at most one of them -1, got {shown(value)}"
        )
    return found if len(found) > 1 else [-1, *found]


def whole(value: object, low: int, high: int) -> int:
    """An integer within bounds; 4.0 is one."""
    given = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise StepError("", f"expected an integer from {low} to {high}, got {shown(value)}")
    return given


def integer(low: int, high: int) -> Reader:
    """The kind of an integer within bounds."""
    return lambda value: whole(value, low, high)


def integers(low: int, high: int) -> Reader:
    """The kind of a short list of integers within bounds."""

    def read(value: object) -> list[int]:
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_LOOPS:
            raise StepError("", f"expected a list of integers, got {shown(value)}")
        return [whole(one, low, high) for one in value]

    return read


def buffer(value: object) -> str | int:
    """A buffer by name, or by its place among those that the block reads or writes."""
    return name(value) if isinstance(value, str) else whole(value, 0, 63)


def choice(options: Sequence[str]) -> Reader:
    """The kind of one word out of a few."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in options:
            return value
        raise StepError("", f"expected one of {', '.join(options)}, got {shown(value)}")

    return read


def text(value: object) -> str:
    """A short piece of text; what it says is checked where it is used."""
    if isinstance(value, str) and len(value) <= 200:
        return value
    raise StepError("", f"expected text of at most 200 characters, got {shown(value)}")


def number(value: object) -> int | float:
    """A finite number."""
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    return whole(value, -_LARGEST, _LARGEST)


def annotation(value: object) -> int | list[int]:
    """The value of an annotation."""
    return integers(0, 64)(value) if isinstance(value, list) else whole(value, 0, 1024)  # type: ignore[return-value]
