# SPDX-License-Identifier: Apache-2.0
"""Seeded mutations of scripts: of their text, and of their trees, which reach further."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy

CHARACTERS = "\x00\t\n\r\"'*:[(\\λ"
NUMBERS = (0, 1, -1, 2, 7, 63, 64, 2**31, -(2**31), 2**31 - 1, 0.5, 1e300, 1e-300)
ATTRIBUTES = (
    *("exp", "max", "min", "floordiv", "floormod", "cast", "Select", "if_then_else", "shift_left"),
    *("grid", "serial", "vectorized", "axis", "sblock", "init", "reads", "match_buffer", "int64"),
    *("call_extern", "evaluate", "address_of", "handle", "attr", "allocate", "inspect"),
)


def mutated_text(script: str, fragments: Sequence[str], rng: random.Random) -> str:
    """A fragment put in, a slice lost or repeated, a character added, a word exchanged."""
    place = rng.randrange(len(script) + 1)
    end = min(len(script), place + rng.randint(0, 40))
    before, taken, after = script[:place], script[place:end], script[end:]
    return rng.choice(
        [
            before + rng.choice(fragments) + taken + after,
            before + after,
            before + taken * rng.randint(2, 30) + after,
            before + rng.choice(CHARACTERS) + taken + after,
            script.replace(rng.choice(script.split() or [script]), rng.choice(fragments), 1),
        ]
    )


def mutated_tree(script: str, fragments: Sequence[str], rng: random.Random) -> str:
    """One to six nodes exchanged for others of their kind, statements doubled or moved."""
    tree = ast.parse(script)
    pool = deepcopy(list(expressions(tree, fragments)))
    for _ in range(rng.randint(1, 6)):
        node = rng.choice([each for each in ast.walk(tree) if not isinstance(each, ast.Module)])
        change(node, pool, rng)
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except (RecursionError, ValueError, TypeError):
        return script  # a tree that is no text


def expressions(tree: ast.Module, fragments: Sequence[str]) -> Iterator[ast.expr]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.expr))
    for fragment in fragments:
        try:
            yield ast.parse(fragment, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def change(node: ast.AST, pool: Sequence[ast.expr], rng: random.Random) -> None:
    """Change one field of a node in place."""
    if isinstance(node, ast.Constant):
        node.value = rng.choice([*NUMBERS, "float32", "S", "local", None, True])
    elif isinstance(node, ast.Attribute):
        node.attr = rng.choice(ATTRIBUTES)
    elif isinstance(node, ast.Name):
        node.id = rng.choice(["A", "B", "vi", "vj", "i", "T", "range", "x", "open"])
    else:
        exchange(node, pool, rng)


def exchange(node: ast.AST, pool: Sequence[ast.expr], rng: random.Random) -> None:
    """Put another expression in, or repeat, drop or turn round a list of children."""
    name = rng.choice(node._fields or ("",))
    value = getattr(node, name, None)
    if isinstance(value, ast.expr):
        setattr(node, name, deepcopy(rng.choice(pool)))
    elif isinstance(value, ast.operator):
        setattr(node, name, rng.choice([ast.Add(), ast.Mult(), ast.Pow(), ast.LShift(), ast.Mod()]))
    elif isinstance(value, list) and value:
        at = rng.randrange(len(value))
        edited = [
            value[:at] + value[at + 1 :],
            value[:at] + [deepcopy(value[at]) for _ in range(3)] + value[at:],
        ]
        setattr(node, name, rng.choice([*edited, value[::-1]]) or value)
