# SPDX-License-Identifier: Apache-2.0
"""Reads x86-64 instructions as LLVM prints them: AT&T syntax, the destination last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kope_tvm.feedback.assembly import Instruction, Kind

ARCHITECTURES = ("x86_64", "amd64")

_VECTOR = re.compile(r"%([xyz])mm\d")
_BITS = {"z": 512, "y": 256, "x": 128}
_STACK = re.compile(r"\(%rsp[,)]")
_STACK_OR_FRAME = re.compile(r"\(%r[sb]p[,)]")
_OPERANDS = re.compile(r"(?:[^,(]|\([^)]*\))+")
_SCALAR_FLOAT = re.compile(
    r"(?:add|sub|mul|div|sqrt|min|max|rcp\w*|\d\d\d|range\w*|scale\w*)s([sdh])$"
)

_KINDS = (
    (Kind.FMA, re.compile(r"vfn?m(?:add|sub)|vpdp|vdpbf16|tdp")),
    (Kind.GATHER, re.compile(r"vp?(?:gather|scatter)")),
    (Kind.CONVERT, re.compile(r"v?cvt|v?pmov[sz]x|vpmov[su]?[sdwqb]+$|v?pack")),
    (
        Kind.SHUFFLE,
        re.compile(
            r"v?perm|v?p?shuf|v?p?unpck|v?p?insert|v?p?extract|v?p?align|v?p?broadcast"
            r"|v?mov(?:sldup|shdup|ddup|hlps|lhps)|vp?compress|vp?expand"
        ),
    ),
    (
        Kind.ARITHMETIC,
        re.compile(
            r"v?(?:add|sub|mul|div|sqrt|min|max|rcp|rsqrt|round|rndscale|scalef|getexp|getmant"
            r"|range|reduce|fixupimm|hadd|addsub)\w*(?:ps|pd|ss|sd|ph|sh)$"
            r"|v?p(?:add|sub|mul|madd|min|max|abs|sad|avg|sign)"
        ),
    ),
)
_BRANCH = re.compile(r"j[a-z]+$|loop")


def read(code: Sequence[tuple[str, str]]) -> Iterator[Instruction]:
    """The instructions of one function."""
    # Without a frame pointer %rbp is a register like any other.
    has_frame = ("movq", "%rsp, %rbp") in code
    stack = _STACK_OR_FRAME if has_frame else _STACK
    for mnemonic, operands in code:
        yield _read(mnemonic, operands, stack)


def _read(mnemonic: str, text: str, stack: re.Pattern[str]) -> Instruction:
    if mnemonic.startswith("call"):
        return Instruction(Kind.CALL, to=_called(text))
    if _BRANCH.match(mnemonic):
        return Instruction(Kind.BRANCH, to=text)
    operands = [one.strip() for one in _OPERANDS.findall(text)]
    width = max(_VECTOR.findall(text), key=lambda letter: _BITS[letter], default="")
    found = _working(mnemonic, width)
    where = next((i for i, one in enumerate(operands) if "(" in one), -1)
    if where < 0 or mnemonic.startswith(("lea", "nop", "prefetch")):
        return found
    is_store = where == len(operands) - 1 and len(operands) > 1 and _writes(mnemonic)
    if "broadcast" in mnemonic:
        found = replace(found, kind=Kind.MOVE)  # The load unit does it.
    on_stack = bool(stack.search(operands[where]))
    return replace(found, loads=1 - is_store, stores=int(is_store), stack=int(on_stack))


def _working(mnemonic: str, width: str) -> Instruction:
    if not width:
        return Instruction(Kind.SCALAR)
    kind = next((kind for kind, known in _KINDS if known.match(mnemonic)), Kind.MOVE)
    if scalar := _SCALAR_FLOAT.search(mnemonic):
        return Instruction(kind, 64 if scalar[1] == "d" else 32, "scalar")
    return Instruction(kind, _BITS[width], f"{width}mm")


def _writes(mnemonic: str) -> bool:
    """Whether an instruction that ends in a memory operand stores there."""
    return not mnemonic.startswith(("cmp", "test", "vucomi", "vcomi", "ucomi", "comi", "bt"))


def _called(text: str) -> str:
    return "a pointer" if text.startswith("*") else text.split("@")[0].strip()
