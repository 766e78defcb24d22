# SPDX-License-Identifier: Apache-2.0
"""Whether a compiled function is right at each vector length that a machine may have."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from kope_tvm.device.program.link import Array, Program, link
from kope_tvm.device.spike.emulator import run
from kope_tvm.errors import KopeError
from kope_tvm.measure.mismatch import mismatch_map
from kope_tvm.measure.policy import Allowed, expected

VLENS = (128, 256, 512, 1024)
_LIMIT_SECS = 30.0
_MINIMUM = re.compile(rb"_zvl(\d+)b")


class Word(str, Enum):
    """What was found."""

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"


@dataclass(frozen=True)
class AtLength:
    """One function on vectors of one length."""

    vlen_bits: int
    word: Word
    reason: str = ""
    """Where the output is wrong, or why the function was not run."""


def right_at(
    program: Program,
    wanted: Sequence[Array],
    vlens: Sequence[int] = VLENS,
    allowed: Sequence[Allowed] = (),
) -> tuple[AtLength, ...]:
    """What becomes of `wanted`, one an output, at each length.

    Outputs are compared, never exit codes: code for longer vectors goes on with wrong numbers.
    `allowed`, one an output, is otherwise what holds where there is no wider truth.
    """
    tolerances = tuple(allowed) or tuple(_allowed(each) for each in wanted)
    least = required_vlen(program.object_bytes)
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        made = link(program, Path(scratch), is_bare=True)
        return tuple(_at(program, made, vlen, least, wanted, tolerances) for vlen in vlens)


def required_vlen(object_bytes: bytes) -> int:
    """The least vector length that an object was built for; 0 of one without vectors.

    Read from `Tag_RISCV_arch`, which compilers write and linkers keep.
    """
    return max((int(found[1]) for found in _MINIMUM.finditer(object_bytes)), default=0)


def is_right_where_it_should_be(lengths: Sequence[AtLength]) -> bool:
    """Nowhere wrong: right at every length, or refused where vectors are too short for it."""
    return any(each.word is Word.RIGHT for each in lengths) and not any(
        each.word is Word.WRONG for each in lengths
    )


def _at(
    program: Program,
    made: Path,
    vlen_bits: int,
    least_bits: int,
    wanted: Sequence[Array],
    allowed: Sequence[Allowed],
) -> AtLength:
    if vlen_bits < least_bits:
        reason = f"built for vectors of {least_bits} bits or more; this core has {vlen_bits}"
        return AtLength(vlen_bits, Word.REFUSED, reason)
    try:
        outputs = program.outputs(run(made, vlen_bits, _LIMIT_SECS))
    except KopeError as error:
        return AtLength(vlen_bits, Word.WRONG, str(error))
    before = [
        each for each, is_out in zip(program.arguments, program.written, strict=True) if is_out
    ]
    for actual, want, poison, tolerance in zip(outputs, wanted, before, allowed, strict=True):
        found = mismatch_map(actual, want, poison.reshape(-1)[:1], tolerance)
        if found:
            return AtLength(vlen_bits, Word.WRONG, found)
    return AtLength(vlen_bits, Word.RIGHT)


def _allowed(wanted: Array) -> Allowed:
    return expected(wanted, None, str(np.dtype(wanted.dtype)), is_integers=False).allowed
