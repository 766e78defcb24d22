# SPDX-License-Identifier: Apache-2.0
"""Every RISC-V encoding that may have a cost of its own, one representative word each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OPCODE, FUNCT3, FUNCT7 = 0x7F, 0x7000, 0xFE000000
_RS2 = 0x1F00000
_VM = 1 << 25
_VECTOR = 0x57
_VS1_SELECTS = frozenset({(1, 0x10), (1, 0x12), (1, 0x13), (2, 0x10), (2, 0x12), (2, 0x14)})
"""(funct3, funct6) of OP-V whose vs1 field says which unary operation it is."""
_UNARY = frozenset({(1, 0x30), (5, 0x14), (5, 0x34), (5, 0x35)})
"""(funct3, top seven bits) of OP-IMM whose low immediate says which unary operation it is."""
_VMV_WHOLE = (3, 0x27)
_MERGE = 0x17
_REGISTERS = 24 << 15 | 16 << 20 | 8 << 7
"""Vectors at v8, v16, v24: aligned for groups of eight, none overlapping another."""


@dataclass(frozen=True)
class Encoding:
    """All words with `word & mask == match`."""

    mask: int
    match: int
    words: tuple[int, ...]
    """Examples to rate, the first legal one counts."""
    is_vector: bool = False


def encodings() -> Iterator[Encoding]:
    """Narrow ones before the wide ones that cover them."""
    yield from _vector_arithmetic()
    yield from _vector_memory()
    yield from _integers()
    yield from _floats()
    yield from _memory_and_control()


def _vector_arithmetic() -> Iterator[Encoding]:
    for funct3 in range(7):
        for funct6 in range(64):
            base = funct6 << 26 | funct3 << 12 | _VECTOR
            wide = 0x3F << 26 | FUNCT3 | OPCODE
            if (funct3, funct6) in _VS1_SELECTS or (funct3, funct6) == _VMV_WHOLE:
                for vs1 in range(32):
                    match = base | vs1 << 15
                    word = match | 16 << 20 | 8 << 7 | _VM
                    yield Encoding(wide | 0x1F << 15, match, (word,), True)
            elif funct6 == _MERGE:
                moved = base | 24 << 15 | 8 << 7 | _VM
                yield Encoding(wide | _VM, base | _VM, (moved,), True)
                yield Encoding(wide | _VM, base, (base | _REGISTERS,), True)
            else:
                full = base | _REGISTERS
                words = (full | _VM, full, base | _VM | 8 << 7 | 10 << 15)
                yield Encoding(wide, base, words, True)


def _vector_memory() -> Iterator[Encoding]:
    wide = 0x7 << 29 | 0x7 << 26 | FUNCT3 | OPCODE
    for opcode in (0x07, 0x27):
        for width in (0, 5, 6, 7):
            for segments in range(8):
                base = segments << 29 | width << 12 | opcode
                rest = _VM | 10 << 15 | 8 << 7
                for unit in (0, 8, 11, 16):
                    match = base | unit << 20
                    yield Encoding(wide | _RS2, match, (match | rest,), True)
                for mop in (1, 2, 3):
                    match = base | mop << 26
                    yield Encoding(wide, match, (match | rest | 16 << 20,), True)


def _integers() -> Iterator[Encoding]:
    registers = 10 << 7 | 11 << 15
    for opcode in (0x13, 0x1B):
        for funct3 in (1, 5):
            for high in range(128):
                base = high << 25 | funct3 << 12 | opcode
                for low in range(32) if (funct3, high) in _UNARY else ():
                    match = base | low << 20
                    yield Encoding(0xFFF00000 | FUNCT3 | OPCODE, match, (match | registers,))
                yield Encoding(FUNCT7 | FUNCT3 | OPCODE, base, (base | registers | 3 << 20,))
        for funct3 in (0, 2, 3, 4, 6, 7):
            match = funct3 << 12 | opcode
            yield Encoding(FUNCT3 | OPCODE, match, (match | registers | 5 << 20,))
    for opcode in (0x33, 0x3B):
        for funct7 in range(128):
            for funct3 in range(8):
                match = funct7 << 25 | funct3 << 12 | opcode
                words = (match | registers | 12 << 20, match | registers)
                yield Encoding(FUNCT7 | FUNCT3 | OPCODE, match, words)


def _floats() -> Iterator[Encoding]:
    registers = 10 << 7 | 11 << 15
    for funct7 in range(128):
        base = funct7 << 25 | 0x53
        for rs2 in range(10) if funct7 >> 2 in (8, 11, 24, 26, 28, 30) else ():
            words = tuple(base | rs2 << 20 | registers | rm << 12 for rm in (7, 0, 1))
            yield Encoding(FUNCT7 | _RS2 | OPCODE, base | rs2 << 20, words)
        words = tuple(base | 12 << 20 | registers | rm << 12 for rm in (7, 0, 1, 2))
        yield Encoding(FUNCT7 | OPCODE, base, words)
    for opcode in (0x43, 0x47, 0x4B, 0x4F):
        for fmt in (0, 1, 2):
            match = fmt << 25 | opcode
            yield Encoding(3 << 25 | OPCODE, match, (match | registers | 12 << 20 | 7 << 12,))


def _memory_and_control() -> Iterator[Encoding]:
    registers = 10 << 7 | 11 << 15
    for opcode in (0x03, 0x07, 0x23, 0x27, 0x63, 0x67):
        for funct3 in range(8):
            match = funct3 << 12 | opcode
            yield Encoding(FUNCT3 | OPCODE, match, (match | registers,))
    for funct5 in range(32):
        for funct3 in (2, 3):
            match = funct5 << 27 | funct3 << 12 | 0x2F
            words = (match | registers | 12 << 20, match | registers)
            yield Encoding(0x1F << 27 | FUNCT3 | OPCODE, match, words)
    for opcode in (0x17, 0x37, 0x6F):
        yield Encoding(OPCODE, opcode, (opcode | 10 << 7 | 1 << 12,))
    yield Encoding(0x80000000 | FUNCT3 | OPCODE, 0x7057, (0x0D0572D7,))
    yield Encoding(0xC0000000 | FUNCT3 | OPCODE, 0xC0007057, (0xCD0472D7,))
    yield Encoding(FUNCT7 | FUNCT3 | OPCODE, 0x80007057, (0x80C5F557,))
