# SPDX-License-Identifier: Apache-2.0
"""Products of float16 summed in float32 on a GPU's matrix units: TVM's own schedule of them."""

from __future__ import annotations

from tvm.ir import IRModule
from tvm.s_tir import Schedule, dlight
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from kope_tvm.intrinsics import register_intrinsics_of
from kope_tvm.schedules.grid_product import Product
from kope_tvm.target import TargetSpec


def matrix_units(product: Product, target: TargetSpec) -> list[Schedule]:
    """Tiles of 128 by 128, loads of the next step under way; empty for other dtypes."""
    dtypes = [*(load.dtype for load in product.loads), product.anchor.stores[0].dtype]
    if dtypes != ["float16", "float16", "float32"]:
        return []
    known = Target(dict(target.tvm_target))
    register_intrinsics_of(str(known.kind.name))
    with known:
        made = dlight.gpu.matmul.MatmulTensorization().apply(product.func, known, False)
    return [_replayed(product, made.trace)] if made is not None else []


def _replayed(product: Product, trace: Trace) -> Schedule:
    """The same on a module of its own, as all spaces are."""
    sch = Schedule(IRModule({"main": product.func}))
    trace.apply_to_schedule(sch, remove_postproc=False)
    return sch
