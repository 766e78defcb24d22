# SPDX-License-Identifier: Apache-2.0
"""Matrix products and convolutions on NVIDIA GPUs, with what is fused around them."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.grid import is_cuda
from kope_tvm.schedules.grid_matrix_units import matrix_units
from kope_tvm.schedules.grid_product import find_product
from kope_tvm.schedules.grid_simt import best_tiles, simt
from kope_tvm.target import TargetSpec

_SPACES = 6


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Tiles by how well they fill the machine."""
    product = find_product(func) if is_cuda(target) else None
    if product is None:
        return []
    units = matrix_units(product, target)
    tiles = best_tiles(product, target.facts)[: 1 if units else _SPACES]
    pipelined = [simt(product, tile, pipelined=True) for tile in tiles]
    return [*units, *pipelined, simt(product, tiles[0], pipelined=False)]
