# SPDX-License-Identifier: Apache-2.0
"""A schedule step as one short line, `split C i [-1,8] -> i0 i1`: a third of its JSON's tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from kope_tvm.plan.argument import Argument
from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.spelling import canonical_primitive

_FILLERS = frozenset({"at", "of"})
"""Arguments that a line leads with their name, to be read as a sentence."""
_LIST = "loops"
"""The argument that takes all words that are left."""
_MAX_CHARS = 400
_WORD = re.compile(
    r"lambda[^:]*:\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|.*)|(?:\w+=)?\[[^\]]*\]|[^\s,;]+"
)


def step_of(line: str) -> dict[str, object]:
    """The JSON form of a line; what it says is checked by whoever reads steps.

    Raises ValueError for a line that is too long.
    """
    if len(line) > _MAX_CHARS:
        raise ValueError(f"a line of {len(line)} characters; at most {_MAX_CHARS}")
    body, _, into = line.partition("->")
    first, *words = [found[0] for found in _WORD.finditer(body)] or [""]
    primitive = canonical_primitive(first)
    known = primitives().get(primitive)
    step = {"do": primitive, **(_arguments(known.arguments, words) if known else {})}
    names = re.findall(r"[\w.]+", into)
    if names:
        step["into"] = names if primitive == "split" else names[0]
    return step


def _arguments(arguments: Sequence[Argument], words: Sequence[str]) -> dict[str, object]:
    """By position; `name=value`, and a name in front of its value, are understood too."""
    found: dict[str, object] = {}
    plain: list[str] = []
    names = [argument.name for argument in arguments if argument.name != "into"]
    led = ""
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.isidentifier():
            found[key] = _value(value)
        elif led:
            found[led], led = _value(word), ""
        elif word in _FILLERS and word in names and word not in found:
            led = word
        else:
            plain.append(word)
    return {**_placed(arguments, plain, found), **found}


def _placed(
    arguments: Sequence[Argument], words: list[str], found: Mapping[str, object]
) -> dict[str, object]:
    """Words to arguments in their order; optional ones only where words are left for them."""
    if not words:
        return {}
    free = [one for one in arguments if one.name not in found and one.name != "into"]
    needed = sum(one.is_required for one in free)
    if len(words) < needed and "." in words[0]:  # `C.i` as a menu spells the loop of a block
        words = [*words[0].rsplit(".", 1), *words[1:]]
    spare = len(words) - needed
    placed: dict[str, object] = {}
    for argument in free:
        if not words:
            break
        if argument.name == _LIST:
            placed[_LIST], words = _names(words), []
        elif argument.is_required or spare > 0:
            spare -= not argument.is_required
            placed[argument.name] = _value(words.pop(0))
    return {**placed, "extra": words} if words else placed


def _names(words: Sequence[str]) -> list[str]:
    return re.findall(r"[\w.]+", " ".join(words))


def _value(word: str) -> object:
    word = word.strip().strip("'\"")
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word


def line_of(primitive: str, args: Mapping[str, object]) -> str:
    """The line of a step; it reads back as the same step."""
    known = primitives().get(primitive)
    order = [one.name for one in known.arguments] if known else []
    words = [primitive]
    for name in order:
        if name in args and name != "into":
            words.append(f"{name} {_word(args[name])}" if name in _FILLERS else _word(args[name]))
    words += [f"{key}={_word(value)}" for key, value in args.items() if key not in order]
    if args.get("into"):
        words.append(f"-> {_word(args['into'])}")
    return " ".join(words)


def _word(value: object) -> str:
    if isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
