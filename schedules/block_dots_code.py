# SPDX-License-Identifier: Apache-2.0
"""The instructions of `block_dots`, one function a kind of machine and of numbers.

`vpdpbusd` and `vpmaddubsw` want one operand without a sign: the weights, whose offset times the
row's numbers comes off again. That, and the spread scales of the row, are the same for all rows of
weights: LLVM computes them once for those that a schedule unrolls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm import tirx
from tvm.ir import Expr
from tvm.script import tirx as T

from kope_tvm.ggml_blocks import EXPONENT, HALF, SCALE_BYTES, BlockFormat

_ZMM, _YMM = 64, 32
"""Bytes of a register."""
_QUAD = 4
"""Blocks whose halves fill a `_ZMM`."""


def vnni(blocks: BlockFormat, a: tirx.Buffer, b: tirx.Buffer, s: tirx.Buffer) -> Expr:
    """Four blocks: 16 sums of eight products, four lanes a block."""
    low, high = _quad_halves(blocks, b)
    zero, offset = _ints(0, 16), T.broadcast(T.int8(8 if blocks.bits == 4 else -128), _ZMM)
    rows = [a.vload([half, 0], f"int8x{_ZMM}") for half in range(2)]
    added = _dpbusd(_dpbusd(zero, offset, rows[0]), offset, rows[1])
    exact = _dpbusd(_dpbusd(zero - added, low, rows[0]), high, rows[1])
    spread = _spread(s.vload([0], "float32x4"), 4, 4)
    return T.Cast("float32x16", exact) * (spread * _quad_scales(blocks, b))


def _quad_halves(blocks: BlockFormat, b: tirx.Buffer) -> tuple[Expr, Expr]:
    """The lower and upper 16 weights of four blocks, unsigned, in the bytes of a register each."""
    if blocks.bits == 4:
        packed = _gathered(b, blocks, SCALE_BYTES)
        return _signed(packed & _bytes(15, _ZMM)), _signed(packed >> _bytes(4, _ZMM))
    low, high = (_joined(b, _QUAD, SCALE_BYTES + half * HALF) for half in range(2))
    return _signed(low ^ _bytes(128, _ZMM)), _signed(high ^ _bytes(128, _ZMM))


def _gathered(b: tirx.Buffer, blocks: BlockFormat, begin: int) -> Expr:
    """16 bytes from `begin` on of each of four blocks, by two loads and one permutation."""
    places = [blk * blocks.num_bytes + begin + i for blk in range(_QUAD) for i in range(HALF)]
    first = max(0, places[_ZMM // 2 - 1] - _ZMM + 1)
    second = places[-1] - _ZMM + 1
    loads = [b.vload([0, at], f"uint8x{_ZMM}") for at in (first, second)]
    picks = [p - first if p < first + _ZMM else p - second + _ZMM for p in places]
    return _picked(loads, picks)


def _quad_scales(blocks: BlockFormat, b: tirx.Buffer) -> Expr:
    """The scales of four blocks, each in four lanes."""
    ends = [blk * blocks.num_bytes for blk in range(_QUAD)]
    second = max(0, ends[-1] + SCALE_BYTES - _ZMM)
    loads = [b.vload([0, at], f"uint8x{_ZMM}") for at in ((0, second) if second else (0,))]
    bytes_ = [end + i for end in ends for _ in range(4) for i in range(SCALE_BYTES)]
    picks = [p if p < _ZMM else p - second + _ZMM for p in bytes_]
    return _widened(_picked(loads, picks))


def pairs(blocks: BlockFormat, a: tirx.Buffer, b: tirx.Buffer, s: tirx.Buffer) -> Expr:
    """Two blocks on AVX2: 8 sums of eight products, four lanes a block."""
    rows = [a.vload([half, 0], f"int8x{_YMM}") for half in range(2)]
    exact = _pair_sums(blocks, b, rows)
    scales = [T.broadcast(s[blk] * _scale(b, blk), 4) for blk in range(2)]
    return T.Cast("float32x8", exact) * _picked(scales, range(8))


def _pair_sums(blocks: BlockFormat, b: tirx.Buffer, rows: Sequence[Expr]) -> Expr:
    ones = T.broadcast(T.int16(1), 16)
    if blocks.bits == 8:
        weights = [_signed(_joined(b, 2, SCALE_BYTES + half * HALF)) for half in range(2)]
        sums = [
            _x86("avx2.pmadd.wd", "int32x8", _maddubs(_sign(w, w), _sign(row, w)), ones)
            for w, row in zip(weights, rows, strict=True)
        ]
        return sums[0] + sums[1]
    packed = _joined(b, 2, SCALE_BYTES)
    halves = [_signed(packed & _bytes(15, _YMM)), _signed(packed >> _bytes(4, _YMM))]
    offset = T.broadcast(T.int8(8), _YMM)
    sums = [
        _maddubs(half, row) - _maddubs(offset, row) for half, row in zip(halves, rows, strict=True)
    ]
    return _x86("avx2.pmadd.wd", "int32x8", sums[0] + sums[1], ones)


def _joined(b: tirx.Buffer, num_blocks: int, begin: int) -> Expr:
    """16 bytes from `begin` on of each block, by a load each."""
    loads = [b.vload([blk, begin], f"uint8x{HALF}") for blk in range(num_blocks)]
    return _picked(loads, range(num_blocks * HALF))


def shorts(blocks: BlockFormat, a: tirx.Buffer, b: tirx.Buffer, s: tirx.Buffer) -> Expr:
    """One block in 16 lanes of int16, which no sum of two products leaves."""
    rows = (T.Cast("int16x16", a.vload([half, 0], "int8x16")) for half in range(2))
    first, second = (row * w for row, w in zip(rows, _shorts(blocks, b), strict=True))
    return T.Cast("float32x16", first + second) * T.broadcast(s[0] * _scale_by_bits(b), 16)


def _shorts(blocks: BlockFormat, b: tirx.Buffer) -> Iterator[Expr]:
    """The lower and the upper weights of a block."""
    if blocks.bits == 8:
        for half in range(2):
            stored = b.vload([0, SCALE_BYTES + half * HALF], "uint8x16")
            yield T.Cast("int16x16", T.reinterpret(stored, dtype="int8x16"))
        return
    packed = b.vload([0, SCALE_BYTES], "uint8x16")
    for nibbles in (packed & _bytes(15, 16), packed >> _bytes(4, 16)):
        number = T.reinterpret(nibbles, dtype="int8x16") - T.broadcast(T.int8(8), 16)
        yield T.Cast("int16x16", number)


def floats(blocks: BlockFormat, a: tirx.Buffer, b: tirx.Buffer) -> Expr:
    """One block in 16 lanes of floats."""
    low, high = (T.Cast("float32x16", each) for each in _shorts(blocks, b))
    return _weighted(a, low, high, _scale(b, 0))


def floats_by_bits(blocks: BlockFormat, a: tirx.Buffer, b: tirx.Buffer) -> Expr:
    """`floats` where no instruction widens a half."""
    low, high = (T.Cast("float32x16", each) for each in _shorts(blocks, b))
    return _weighted(a, low, high, _scale_by_bits(b))


def floats_by_table(blocks: BlockFormat, a: tirx.Buffer, b: tirx.Buffer) -> Expr:
    """`floats` on AVX-512: `vpermps` looks four bits up, whatever lies above them."""
    if blocks.bits == 8:
        return floats(blocks, a, b)
    table = _picked([T.float32(value - 8) for value in range(16)], range(16))
    packed = T.Cast("int32x16", b.vload([0, SCALE_BYTES], "uint8x16"))
    low, high = (
        _x86("avx512.permvar.sf.512", "float32x16", table, at)
        for at in (packed, packed >> _ints(4, 16))
    )
    return _weighted(a, low, high, _scale(b, 0))


def _weighted(a: tirx.Buffer, low: Expr, high: Expr, scale: Expr) -> Expr:
    rows = [a.vload([half, 0], "float32x16") for half in range(2)]
    return T.broadcast(scale, 16) * (rows[0] * low + rows[1] * high)


def _scale(b: tirx.Buffer, block: int) -> Expr:
    bits = _finite(T.reinterpret(b.vload([block, 0], "uint8x2"), dtype="int16"))
    return T.Cast("float32", T.reinterpret(bits, dtype="float16"))


def _finite(bits: Expr) -> Expr:
    """The same half, or 0 where it is no finite number."""
    exponent = T.int16(EXPONENT)
    return tirx.Select(T.bitwise_and(bits, exponent) < exponent, bits, T.int16(0))


def _widened(halves: Expr) -> Expr:
    """`_scale` of 16 at a time: AVX-512 leaves lanes out for nothing."""
    exponent = T.broadcast(T.int16(EXPONENT), 16)
    is_finite = (T.reinterpret(halves, dtype="int16x16") & exponent) < exponent
    floats = T.Cast("float32x16", T.reinterpret(halves, dtype="float16x16"))
    return tirx.Select(is_finite, floats, T.broadcast(T.float32(0), 16))


def _scale_by_bits(b: tirx.Buffer) -> Expr:
    """A half's bits, where a float32 has them, are it times 2^-112."""
    half = _finite(T.reinterpret(b.vload([0, 0], "uint8x2"), dtype="int16"))
    placed = T.bitwise_and(T.Cast("int32", half) << 13, T.int32(-0x70002000))
    return T.reinterpret(placed, dtype="float32") * T.float32(2.0**112)


def _spread(vector: Expr, lanes: int, times: int) -> Expr:
    """Each lane so many times; TVM wants no more lanes out of a permutation than go into it."""
    return _picked([vector] * times, [lane // times for lane in range(lanes * times)])


def _picked(vectors: Sequence[Expr], places: Sequence[int]) -> Expr:
    return tirx.Shuffle(list(vectors), [T.int32(at) for at in places])


def _signed(value: Expr) -> Expr:
    return T.reinterpret(value, dtype=str(value.ty).replace("uint8", "int8"))


def _bytes(value: int, lanes: int) -> Expr:
    return T.broadcast(T.uint8(value), lanes)


def _ints(value: int, lanes: int) -> Expr:
    return T.broadcast(T.int32(value), lanes)


def _dpbusd(total: Expr, unsigned: Expr, signed: Expr) -> Expr:
    return _x86("avx512.vpdpbusd.512", "int32x16", total, unsigned, signed)


def _maddubs(unsigned: Expr, signed: Expr) -> Expr:
    return _x86("avx2.pmadd.ub.sw", "int16x16", unsigned, signed)


def _sign(value: Expr, by: Expr) -> Expr:
    return _x86("avx2.psign.b", f"int8x{_YMM}", value, by)


def _x86(instruction: str, dtype: str, *args: Expr) -> Expr:
    number = T.llvm_lookup_intrinsic_id(f"llvm.x86.{instruction}")
    return T.call_llvm_pure_intrin(number, *args, dtype=dtype)
