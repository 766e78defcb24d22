# SPDX-License-Identifier: Apache-2.0
"""What a board can do at most: rates measured by the kernels that measure this machine's."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kope_tvm.boards import Met
from kope_tvm.feedback.rates import Rates
from kope_tvm.feedback.roof_rates import measured_rates
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool
from kope_tvm.target import TargetSpec

_LOG = logging.getLogger("kope_tvm")


@dataclass(frozen=True)
class BoardRoofs:
    """The best rates seen of one core and of all; `mark` where no clock measured them."""

    one_core: Rates
    all_cores: Rates
    mark: str = ""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Name and value of each rate, for a table."""
        return [
            (f"{name}, {what}", value)
            for name, rates in (("one core", self.one_core), ("all cores", self.all_cores))
            for what, value in _spelled(rates)
        ]


def board_roofs(met: Met, spec: TargetSpec) -> BoardRoofs:
    """Measure them at a place; KopeError where no board answers."""
    with Pool(spec, MeasureConfig(), _LOG, met) as pool:
        found = measured_rates(pool, spec)
    return BoardRoofs(found.one_core, found.all_cores, met.mark)


def _spelled(rates: Rates) -> list[tuple[str, str]]:
    flops = [(f"GFLOP/s {name}", f"{rate / 1e9:.3g}") for name, rate in rates.flops_per_sec.items()]
    return [
        *flops,
        *((f"GB/s from {least} bytes", f"{rate / 1e9:.3g}") for least, rate in rates.bandwidths),
    ]
