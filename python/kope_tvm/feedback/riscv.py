# SPDX-License-Identifier: Apache-2.0
"""Reads RISC-V instructions, with the vector extension, as LLVM prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kope_tvm.feedback.assembly import Instruction, Kind

ARCHITECTURES = ("riscv64",)

_VSET = re.compile(r"vset(?:i?vli)$")
_TYPE = re.compile(r"e(\d+),\s*m(f?)(\d)")
_VLEN_BITS = 128
"""The least there is: only loops of one function are compared by it."""
_BRANCH = re.compile(r"b(?:eq|ne|lt|ge|gt|le)u?z?$|j$|jr$|ret$|tail$")
_CALL = re.compile(r"call$|jalr?$")
_SCALAR_MEMORY = re.compile(r"f?(l|s)(?:[bhwd]u?)$")
_VECTOR_MEMORY = re.compile(r"v(l|s)(ux|ox|s|m|e|[1248]r)")
_BASE = re.compile(r"\((\w+)\)")

_VECTOR_KINDS = (
    (Kind.FMA, re.compile(r"vfw?n?m(?:acc|add|sac|sub)|vw?n?m(?:acc|add|sac|sub)|vqdot")),
    (Kind.CONVERT, re.compile(r"vfw?n?cvt|vfncvt|v[sz]ext|vn(?:srl|sra|clip)")),
    (Kind.SHUFFLE, re.compile(r"vrgather|vslide|vf?slide|vcompress|vmerge|vf?merge|vid|viota")),
    (Kind.MOVE, re.compile(r"vf?mv|vm[a-z]+\.m|vms|vmf")),
)
_SCALAR_KINDS = (
    (Kind.FMA, re.compile(r"fn?m(?:add|sub)\.")),
    (Kind.CONVERT, re.compile(r"fcvt\.")),
    (Kind.ARITHMETIC, re.compile(r"f(?:add|sub|mul|div|sqrt|min|max|abs|neg|sgnj\w*)\.")),
)


def read(code: Sequence[tuple[str, str]]) -> Iterator[Instruction]:
    """The instructions of one function; vectors are as wide as the last `vset` above says."""
    bits, registers = _VLEN_BITS, "v"
    of_stack: set[str] = {"sp"}
    for mnemonic, operands in code:
        if _VSET.match(mnemonic):
            bits, registers = _vectors(operands)
        found = _memory(mnemonic, operands, of_stack) or _control(mnemonic, operands)
        yield found or _working(mnemonic, bits, registers)
        _follow_stack(mnemonic, operands, of_stack)


def _vectors(operands: str) -> tuple[int, str]:
    found = _TYPE.search(operands)
    if found is None:
        return _VLEN_BITS, "v"
    element, is_part, number = found.groups()
    bits = _VLEN_BITS // int(number) if is_part else _VLEN_BITS * int(number)
    return bits, f"v m{is_part}{number} e{element}"


def _memory(mnemonic: str, operands: str, of_stack: set[str]) -> Instruction | None:
    vector, scalar = _VECTOR_MEMORY.match(mnemonic), _SCALAR_MEMORY.match(mnemonic)
    base = _BASE.search(operands)
    if base is None or not (vector or scalar):
        return None
    direction = (vector or scalar)[1]  # type: ignore[index]
    kind = Kind.MOVE if vector or mnemonic[0] == "f" else Kind.SCALAR
    if vector and vector[2] in ("ux", "ox", "s"):
        kind = Kind.GATHER
    return Instruction(
        kind,
        _VLEN_BITS if vector else 0,
        loads=int(direction == "l"),
        stores=int(direction == "s"),
        stack=int(base[1] in of_stack),
    )


def _control(mnemonic: str, operands: str) -> Instruction | None:
    last = operands.rpartition(",")[2].strip()
    if _BRANCH.match(mnemonic):
        return Instruction(Kind.BRANCH, to=last)
    if _CALL.match(mnemonic):
        return Instruction(Kind.CALL, to=last if mnemonic == "call" else "a pointer")
    return None


def _working(mnemonic: str, bits: int, registers: str) -> Instruction:
    if mnemonic[0] == "v" and not _VSET.match(mnemonic):
        kind = next((kind for kind, known in _VECTOR_KINDS if known.match(mnemonic)), None)
        return Instruction(kind or Kind.ARITHMETIC, bits, registers)
    for kind, known in _SCALAR_KINDS:
        if known.match(mnemonic):
            return Instruction(kind, 64 if mnemonic.endswith(".d") else 32, "scalar")
    return Instruction(Kind.SCALAR)


def _follow_stack(mnemonic: str, operands: str, of_stack: set[str]) -> None:
    """Which registers point into the stack: vectors are spilled to addresses made for them."""
    to, *sources = (name.strip() for name in operands.split(","))
    if to == "sp" or _BRANCH.match(mnemonic) or re.match(r"f?s[bhwd]$", mnemonic):
        return
    if mnemonic in ("add", "addi", "sub", "mv") and of_stack.intersection(sources):
        of_stack.add(to)
    else:
        of_stack.discard(to)
