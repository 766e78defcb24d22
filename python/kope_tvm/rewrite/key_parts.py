# SPDX-License-Identifier: Apache-2.0
"""Attention over its keys part by part: a softmax's weights, and what they weigh, never whole.

`sum(exp(x - max(x)) * v) / sum(exp(x - max(x)))` with a maximum a part, whose results are then
weighed by `exp(part's maximum - maximum)`: Milakov and Gimelshein 2018 (arXiv:1805.02867), for
attention Rabe and Staats 2021 (arXiv:2112.05682). A part with nothing but minus infinity in it
has the least finite number as its maximum, as TVM's reductions do, and so no weight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kope_tvm.rewrite.attention import Attention, find_attention
from kope_tvm.rewrite.attributes import drop_attributes
from kope_tvm.rewrite.elements import indices
from kope_tvm.rewrite.steps import Extent, function_of, steps

_PARTS = (128, 64, 32)
"""Keys of a part; the first that divides."""
_PART, _KEY = "v_part", "v_key"
_ZERO = "T.float32(0.0)"
_LEAST = 'T.min_value("float32")'


def with_keys_in_parts(script: str) -> str | None:
    """The script of a function, as TVM prints it, with its attention in parts.

    None where it has none of float32, or none that parts divide.
    """
    tree = ast.parse(script)
    function = function_of(tree)
    found = find_attention(list(steps(function)))
    form = _Form.of(found) if found and '"float16"' not in script else None
    if found is None or form is None:
        return None
    _replace(function, found, ast.parse("\n".join(form.lines())).body)
    drop_attributes(function)
    return ast.unparse(ast.fix_missing_locations(tree))


def _replace(function: ast.FunctionDef, found: Attention, made: list[ast.stmt]) -> None:
    """The blocks made instead of those found, whose buffers are no more."""
    gone = {id(step.nest) for step in found.steps}
    unused = {step.buffer for step in found.steps[:-1]}
    place = function.body.index(found.weighed_sum.nest)
    body = [*function.body[:place], *made, *function.body[place:]]
    function.body = [each for each in body if id(each) not in gone and _kept(each) not in unused]


def _kept(statement: ast.stmt) -> str:
    """The buffer that a statement makes."""
    return ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


@dataclass(frozen=True)
class _Axis:
    """An iterator of a block."""

    name: str
    extent: Extent
    kind: str = "S"


def _names(axes: tuple[_Axis, ...]) -> str:
    return ", ".join(axis.name for axis in axes)


@dataclass(frozen=True)
class _Form:
    """Attention in parts as text, with iterators named as no buffer is."""

    rows: tuple[_Axis, ...]
    columns: tuple[_Axis, ...]
    num_parts: Extent
    part: Extent
    logit: str
    weighed: str
    out: str

    @classmethod
    def of(cls, found: Attention) -> _Form | None:
        """None where the loops are no plain grid, or nothing divides the keys."""
        sizes = found.weighed_sum.extents
        used = indices(found.weighed_sum.target)
        *rows, key = indices(found.quotient)
        columns = [name for name in used if name not in rows]
        if set(sizes) != {*rows, *columns, key} or not columns:
            return None
        num_keys = sizes[key]
        size = next((size for size in _PARTS if num_keys.size % size == 0), 0)
        if not size:
            return None
        part = replace(num_keys, size=size)
        names = {name: f"v_row{at}" for at, name in enumerate(rows)}
        names |= {name: f"v_column{at}" for at, name in enumerate(columns)}
        names[key] = f"{_PART} * {part} + {_KEY}"
        return cls(
            tuple(_Axis(names[name], sizes[name]) for name in rows),
            tuple(_Axis(names[name], sizes[name]) for name in columns),
            replace(num_keys, size=num_keys.size // size),
            part,
            f"{found.logits}[{', '.join([names[name] for name in rows])}, {names[key]}]",
            _renamed(found.weighed, names),
            _renamed(found.weighed_sum.target, names),
        )

    def lines(self) -> Iterator[str]:
        """Blocks in their order, each behind the buffer that it fills."""
        rows, columns, logit = self.rows, self.columns, self.logit
        part, added = _Axis(_PART, self.num_parts), _Axis(_PART, self.num_parts, "R")
        each, key = _Axis(_KEY, self.part), _Axis(_KEY, self.part, "R")
        r, rp, rc = _names(rows), _names((*rows, part)), _names((*rows, *columns))
        exp, weight = f"part_exp[{rp}, {_KEY}]", f"key_weight[{rp}]"
        term = f"{weight} * part_out[{rp}, {_names(columns)}]"
        yield from _made("part_max", (*rows, part), key, f"T.max({{0}}, {logit})", _LEAST)
        yield from _made("part_exp", (*rows, part, each), None, f"T.exp({logit} - part_max[{rp}])")
        yield from _made("part_sum", (*rows, part), key, f"{{0}} + {exp}")
        total = f"{{0}} + {exp} * {self.weighed}"
        yield from _made("part_out", (*rows, part, *columns), key, total)
        yield from _made("key_max", rows, added, f"T.max({{0}}, part_max[{rp}])", _LEAST)
        yield from _made("key_weight", (*rows, part), None, f"T.exp(part_max[{rp}] - key_max[{r}])")
        yield from _made("key_sum", rows, added, f"{{0}} + {weight} * part_sum[{rp}]")
        yield from _made("key_out", (*rows, *columns), added, f"{{0}} + {term}")
        store = f"{self.out} = key_out[{rc}] / key_sum[{r}]"
        yield from _block("key_quotient", (*rows, *columns), [store])


def _renamed(element: ast.Subscript, names: dict[str, str]) -> str:
    """The element with other iterators."""
    made = ast.parse(ast.unparse(element), mode="eval").body
    assert isinstance(made, ast.Subscript)
    for node in ast.walk(made.slice):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id] if names[node.id].isidentifier() else f"({names[node.id]})"
    return ast.unparse(made)


def _made(
    buffer: str, axes: tuple[_Axis, ...], reduced: _Axis | None, value: str, start: str = _ZERO
) -> Iterator[str]:
    """A buffer with a dimension an axis, and the block that fills it; `{0}` is what it keeps."""
    element = f"{buffer}[{_names(axes)}]"
    yield f"{buffer} = T.sblock_alloc_buffer(({', '.join(str(axis.extent) for axis in axes)},))"
    store = f"{element} = {value.format(element)}"
    if reduced is None:
        yield from _block(buffer, axes, [store])
    else:
        first = ["with T.init():", f"    {element} = {start}"]
        yield from _block(buffer, (*axes, reduced), [*first, store])


def _block(name: str, axes: tuple[_Axis, ...], body: list[str]) -> Iterator[str]:
    kinds, loops = (
        "".join(axis.kind for axis in axes),
        [axis.name.removeprefix("v_") for axis in axes],
    )
    yield f"for {', '.join(loops)} in T.grid({', '.join(str(axis.extent) for axis in axes)}):"
    yield f"    with T.sblock({name!r}):"
    yield f"        {_names(axes)} = T.axis.remap({kinds!r}, [{', '.join(loops)}])"
    yield from (f"        {line}" for line in body)
