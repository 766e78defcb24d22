# SPDX-License-Identifier: Apache-2.0
"""A recipe in the words of the transform dialect."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.mlir.outline import LinalgOp, Outline
from kope_tvm.mlir.recipe import Recipe, Sizes
from kope_tvm.mlir.transform_text import (
    ANY,
    CLEAN,
    FUNCTION,
    FUSE_ELEMENTWISE,
    PADS_AS_FILLS,
    ops_of,
    sequence,
    spelt,
)

_DECOMPOSED = ("linalg.conv_2d_nhwc_hwcf", "linalg.depthwise_conv_2d_nhwc_hwc")
"""Two-dimensional windows, vectorised as one-dimensional ones once they are one row high."""


def script_of(recipe: Recipe, ops: Outline) -> str:
    """The script that a recipe stands for; raises ValueError where it does not fit the ops.

    `ops` is the outline with elementwise ops fused where the recipe fuses them.
    """
    _check(recipe, ops)
    parts = [PADS_AS_FILLS, FUSE_ELEMENTWISE if recipe.fuse_elementwise else ""]
    parts += [ops_of("op", len(ops.ops), "%root"), *_outer(recipe, ops), FUNCTION, CLEAN]
    parts += [ops_of("tile", len(ops.ops), "%function")]
    first = len(ops.ops) - len(ops.fed)
    for number, (op, sizes) in enumerate(_paired(recipe, ops)):
        parts += _within(op, sizes, f"%tile#{first + number}", f"t{number}")
    return sequence("".join(parts))


def _check(recipe: Recipe, ops: Outline) -> None:
    if not recipe.outer:
        raise ValueError("no outer tile: there is nothing to vectorise")
    for sizes in recipe.outer:
        _check_sizes(sizes, ops.last, "outer")
        if any(sizes[at] for at in ops.last.reduced if at < len(sizes)):
            raise ValueError(f"outer tile {spelt(sizes)} splits a reduction; inner ones may")
    if len(recipe.inner) > len(ops.fed):
        raise ValueError(f"{len(recipe.inner)} inner tiles; {len(ops.fed)} ops are tiled")
    for op, sizes in _paired(recipe, ops):
        _check_sizes(sizes, op, "inner")


def _check_sizes(sizes: Sizes, op: LinalgOp, name: str) -> None:
    if len(sizes) > len(op.extents):
        told = f"{len(op.extents)} dimensions"
        raise ValueError(f"{name} tile {spelt(sizes)} of {op.name}, which has {told}")
    for size, extent in zip(sizes, op.extents, strict=False):
        if size and (not extent or extent % size):
            raise ValueError(f"{name} tile {spelt(sizes)} of {op.name}: {size} divides no {extent}")


def _paired(recipe: Recipe, ops: Outline) -> list[tuple[LinalgOp, Sizes]]:
    missing = len(ops.fed) - len(recipe.inner)
    return list(zip(ops.fed, (*recipe.inner, *[()] * missing), strict=True))


def _outer(recipe: Recipe, ops: Outline) -> Iterator[str]:
    handle = f"%op#{len(ops.ops) - 1}"
    for level, sizes in enumerate(recipe.outer):
        loops = sum(1 for size in sizes if size)
        kinds = ", ".join([ANY] * (1 + loops))
        yield (
            f"    %outer{level}, %loops{level}:{loops} = transform.structured.fuse {handle}"
            f" tile_sizes {spelt(sizes)} {{apply_cleanup}} : ({ANY}) -> ({kinds})\n"
        )
        handle = f"%outer{level}"


def _within(op: LinalgOp, sizes: Sizes, handle: str, name: str) -> Iterator[str]:
    """One op's own loops, and vectors of what is left."""
    loops = sum(1 for size in sizes if size)
    if loops and _is_partial(op, sizes):
        yield (
            f"    %{name}_fill, %{name}_part, %{name}_sum, %{name}_loop ="
            f" transform.structured.tile_reduction_using_for {handle} by"
            f" tile_sizes = {spelt(sizes)} : ({ANY}) -> ({', '.join([ANY] * 4)})\n"
        )
        for part in ("fill", "part", "sum"):
            yield _vectorised(f"%{name}_{part}")
        return
    if loops:
        kinds = ", ".join([ANY] * (1 + loops))
        yield (
            f"    %{name}, %{name}_loops:{loops} = transform.structured.tile_using_for {handle}"
            f" tile_sizes {spelt(sizes)} : ({ANY}) -> ({kinds})\n"
        )
        handle = f"%{name}"
    if op.name in _DECOMPOSED:
        yield f"    %{name}_row = transform.structured.decompose {handle} : ({ANY}) -> {ANY}\n"
        handle = f"%{name}_row"
    yield _vectorised(handle)


def _is_partial(op: LinalgOp, sizes: Sizes) -> bool:
    """Whether a reduction runs along the lanes: each lane then sums on its own."""
    last = op.reduced[-1] if op.reduced else -1
    is_tiled = 0 <= last < len(sizes) and sizes[last] > 1
    return is_tiled and last in op.last_input and not op.is_contraction


def _vectorised(handle: str) -> str:
    return f"    transform.structured.vectorize {handle} : {ANY}\n"
