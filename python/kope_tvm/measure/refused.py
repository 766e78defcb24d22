# SPDX-License-Identifier: Apache-2.0
"""Why a candidate that ran is not to be believed."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.errors import KopeError
from kope_tvm.measure.job import Argument


class RefusedError(KopeError):
    """The candidate ran and is wrong."""

    def __init__(self, code: str, error: str, max_error: float = 0.0) -> None:
        super().__init__(error)
        self.code = code
        self.max_error = max_error


def require_same_signature(given: Sequence[Argument], wanted: Sequence[Argument]) -> None:
    """Refuse a function of other parameters: `E_SIGNATURE`."""

    def shapes(arguments: Sequence[Argument]) -> list[tuple[str, tuple[int, ...]]]:
        return [(argument.dtype, argument.shape) for argument in arguments]

    if shapes(given) != shapes(wanted):
        raise RefusedError(
            "E_SIGNATURE",
            f"takes ({', '.join(map(str, given))}), expected ({', '.join(map(str, wanted))})",
        )
