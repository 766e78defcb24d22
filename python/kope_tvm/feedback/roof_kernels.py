# SPDX-License-Identifier: Apache-2.0
"""Functions that do one thing as fast as a core can: multiply and add, or move bytes."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T  # noqa: N812

CHAINS = 12
"""Independent sums: more than the latency times the rate of any known multiply-add."""
DOT_BYTES = 4
"""Products of int8 that one int32 lane sums up in one instruction."""
WORD = "int64"
"""What bytes are moved as: random inputs of it are made quickest."""
WORD_BYTES = 8


def multiply_adds(cores: int, rounds: int, lanes: int, dtype: str) -> tvm.IRModule:
    """`2 * cores * rounds * CHAINS * lanes` operations on registers."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((CHAINS, lanes), dtype),  # type: ignore[valid-type]
        out: T.Buffer((cores, CHAINS, lanes), dtype),  # type: ignore[valid-type]
    ) -> None:
        T.func_attr({"global_symbol": "main"})
        for core in T.parallel(cores):
            with T.sblock("core"):
                total = T.sblock_alloc_buffer((CHAINS, lanes), dtype)
                for chain in T.unroll(CHAINS):
                    for lane in T.vectorized(lanes):
                        total[chain, lane] = x[chain, lane]
                for _ in range(rounds):
                    for chain in T.unroll(CHAINS):
                        for lane in T.vectorized(lanes):
                            total[chain, lane] = total[chain, lane] * T.Cast(
                                dtype, T.float32(0.5)
                            ) + T.Cast(dtype, T.float32(1.5))
                for chain in T.unroll(CHAINS):
                    for lane in T.vectorized(lanes):
                        out[core, chain, lane] = total[chain, lane]

    return tvm.IRModule({"main": main})


def dot_products(cores: int, rounds: int, lanes: int, intrinsic: str) -> tvm.IRModule:
    """`2 * DOT_BYTES * cores * rounds * CHAINS * lanes` operations, by an intrinsic of LLVM."""
    number = T.llvm_lookup_intrinsic_id(intrinsic)
    sums, bytes_ = f"int32x{lanes}", f"int8x{lanes * DOT_BYTES}"

    @T.prim_func(s_tir=True)
    def main(out: T.Buffer((cores, CHAINS, lanes), "int32")) -> None:  # type: ignore[valid-type]
        T.func_attr({"global_symbol": "main"})
        for core in T.parallel(cores):
            with T.sblock("core"):
                total = T.sblock_alloc_buffer((CHAINS, lanes), "int32")
                for chain in T.unroll(CHAINS):
                    for lane in T.vectorized(lanes):
                        total[chain, lane] = chain
                for _ in range(rounds):
                    for chain in T.unroll(CHAINS):
                        total[chain, T.ramp(0, 1, lanes)] = T.call_llvm_pure_intrin(
                            number,
                            total.vload([chain, 0], dtype=sums),
                            T.reinterpret(T.broadcast(T.int32(0x01020304), lanes), dtype=bytes_),
                            T.reinterpret(T.broadcast(T.int32(0x04030201), lanes), dtype=bytes_),
                            dtype=sums,
                        )
                for chain in T.unroll(CHAINS):
                    for lane in T.vectorized(lanes):
                        out[core, chain, lane] = total[chain, lane]

    return tvm.IRModule({"main": main})


def reads(cores: int, rounds: int, lanes: int, steps: int) -> tvm.IRModule:
    """Sums its input up `rounds` times, each core its own `steps * CHAINS * lanes` words."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((cores, steps, CHAINS, lanes), WORD),  # type: ignore[valid-type]
        out: T.Buffer((cores, CHAINS, lanes), WORD),  # type: ignore[valid-type]
    ) -> None:
        T.func_attr({"global_symbol": "main"})
        for core in T.parallel(cores):
            with T.sblock("core"):
                total = T.sblock_alloc_buffer((CHAINS, lanes), WORD)
                for chain in T.unroll(CHAINS):
                    total[chain, T.ramp(0, 1, lanes)] = T.broadcast(T.int64(0), lanes)
                for _ in range(rounds):
                    for step in range(steps):
                        for chain in T.unroll(CHAINS):
                            total[chain, T.ramp(0, 1, lanes)] = (
                                total[chain, T.ramp(0, 1, lanes)]
                                + x[core, step, chain, T.ramp(0, 1, lanes)]
                            )
                for chain in T.unroll(CHAINS):
                    out[core, chain, T.ramp(0, 1, lanes)] = total[chain, T.ramp(0, 1, lanes)]

    return tvm.IRModule({"main": main})


def triads(cores: int, rounds: int, lanes: int, steps: int) -> tvm.IRModule:
    """Writes the sums of its two inputs, `rounds` times."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((cores, steps, lanes), WORD),  # type: ignore[valid-type]
        y: T.Buffer((cores, steps, lanes), WORD),  # type: ignore[valid-type]
        out: T.Buffer((cores, steps, lanes), WORD),  # type: ignore[valid-type]
    ) -> None:
        T.func_attr({"global_symbol": "main"})
        for core in T.parallel(cores):
            for _ in range(rounds):
                for step in range(steps):
                    for lane in T.vectorized(lanes):
                        out[core, step, lane] = x[core, step, lane] + y[core, step, lane]

    return tvm.IRModule({"main": main})


def launches(cores: int, rounds: int) -> tvm.IRModule:
    """Wakes the threads `rounds` times, for one store each."""

    @T.prim_func(s_tir=True)
    def main(out: T.Buffer((cores,), "int32")) -> None:  # type: ignore[valid-type]
        T.func_attr({"global_symbol": "main"})
        for _ in range(rounds):
            for core in T.parallel(cores):
                out[core] = 1

    return tvm.IRModule({"main": main})
