# SPDX-License-Identifier: Apache-2.0
"""Cycles of a bare program on rvsim, an out-of-order core with the X60's units and caches.

Run as a program of its own, `python -m ... PROGRAM ADDRESS VLEN`: a simulation that does not end
can be ended.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


def main(program: str, address: str, vlen_bits: str) -> None:
    """Prints the number at an address when the program has ended."""
    rvsim = importlib.import_module("rvsim")
    cpu = rvsim.Simulator(_config(rvsim, int(vlen_bits)), binary=program)
    cpu.run()
    sys.stdout.write(f"{cpu.mem64[int(address)]}\n")


def _config(rvsim: Any, vlen_bits: int) -> Any:
    """Two wide; its in-order core is left aside, because that one serialises vectors."""
    backend = rvsim.Backend.OutOfOrder(
        rob_size=32,
        store_buffer_size=8,
        issue_queue_size=16,
        load_queue_size=16,
        load_ports=2,
        store_ports=1,
        fu_config=_units(rvsim.Fu),
    )
    return rvsim.Config(
        width=2,
        backend=backend,
        vlen=vlen_bits,
        num_vec_lanes=vlen_bits // 64,
        l1d=rvsim.Cache("32KB", ways=4, latency=1, mshr_count=8),
        l2=rvsim.Cache("512KB", ways=16, latency=20),
        ram_size="1GB",
        uart_quiet=True,
    )


def _units(fu: Any) -> Any:
    return fu(
        [
            fu.IntAlu(count=2, latency=1),
            fu.IntMul(count=2, latency=6),
            fu.IntDiv(count=1, latency=20),
            fu.FpAdd(count=1, latency=4),
            fu.FpMul(count=1, latency=4),
            fu.FpFma(count=1, latency=5),
            fu.FpDivSqrt(count=1, latency=15),
            fu.Branch(count=1, latency=1),
            fu.Mem(count=2, latency=3),
            fu.VecIntAlu(count=1, latency=4),
            fu.VecIntMul(count=1, latency=4),
            fu.VecIntDiv(count=1, latency=20),
            fu.VecFpAlu(count=1, latency=4),
            fu.VecFpFma(count=1, latency=5),
            fu.VecFpDivSqrt(count=1, latency=40),
            fu.VecMem(count=1, latency=3),
            fu.VecPermute(count=1, latency=4),
        ]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
