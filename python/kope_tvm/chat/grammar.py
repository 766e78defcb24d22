# SPDX-License-Identifier: Apache-2.0
"""JSON schemas as GBNF, the grammar language of llama.cpp, for servers that take nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_MOST_DIGITS = 15
"""Beyond which a number is a model repeating itself."""

_TERMINALS = {
    "ws": r'" "?',
    "char": r'[^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" hex hex hex hex)',
    "hex": "[0-9a-fA-F]",
    "string": r'"\"" char* "\""',
    "integer": f'"-"? ("0" | [1-9] [0-9]{{0,{_MOST_DIGITS}}})',
    "number": f'integer ("." [0-9]{{1,{_MOST_DIGITS}}})? ([eE] [-+]? [0-9]{{1,3}})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "array": '"[" ws (value (ws "," ws value)*)? ws "]"',
    "object": '"{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"',
    "value": "object | array | string | number | boolean | null",
}


def grammar_of(schema: Mapping[str, Any]) -> str:
    """GBNF of the texts that a schema admits, properties in their order; `root` is its start.

    Knows `type`, `properties`, `required`, `items`, `minItems`, `maxItems`, `enum`, `const`,
    `anyOf` and `oneOf`; anything else is admitted and left to whoever reads the reply.
    """
    rules = _Rules()
    root = rules.of(schema)
    lines = [f"root ::= ws {root} ws", *(f"{name} ::= {body}" for name, body in rules.made.items())]
    return "\n".join([*lines, *(f"{name} ::= {body}" for name, body in _TERMINALS.items())]) + "\n"


class _Rules:
    """Rules of the objects and arrays met so far; equal ones are one rule."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def of(self, schema: Any) -> str:
        """An expression, to stand in a sequence, of what a schema admits."""
        if not isinstance(schema, Mapping):
            return "value"
        if "const" in schema:
            return _literal(schema["const"])
        if "enum" in schema:
            return self._either(map(_literal, schema["enum"]))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._either(map(self.of, schema[key]))
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._either(self.of({**schema, "type": each}) for each in kind)
        if kind == "object" and schema.get("properties"):
            return self._rule(self._object(schema["properties"], schema.get("required", ())))
        if kind == "array" and "items" in schema:
            return self._rule(self._array(schema))
        return kind if kind in _TERMINALS else "value"

    def _either(self, choices: Any) -> str:
        return self._rule(" | ".join(dict.fromkeys(choices)))

    def _object(self, properties: Mapping[str, Any], required: Sequence[str]) -> str:
        pairs = {
            name: f'{_literal(name)} ws ":" ws {self.of(schema)}'
            for name, schema in properties.items()
        }
        inside = self._rest(list(pairs.items()), frozenset(required), is_first=True)
        return f'"{{" ws {inside} ws "}}"'

    def _rest(
        self, pairs: list[tuple[str, str]], required: frozenset[str], *, is_first: bool
    ) -> str:
        """The properties that may still come; a comma stands before each but the first."""
        if not pairs:
            return '""'
        (name, pair), *others = pairs
        here = pair if is_first else f'ws "," ws {pair}'
        then = self._rest(others, required, is_first=False)
        taken = here if then == '""' else f"{here} {then}"
        if name in required:
            return taken
        skipped = self._rest(others, required, is_first=is_first)
        if not is_first and skipped == then:
            return f"({here})?" if then == '""' else f"({here})? {then}"
        return self._rule(f"{taken} | {skipped}")

    def _array(self, schema: Mapping[str, Any]) -> str:
        item = self.of(schema["items"])
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        bounds = f"{{{max(0, least - 1)},{'' if most is None else most - 1}}}"
        items = f'{item} (ws "," ws {item}){bounds}'
        if most == 0:
            items = '""'
        elif not least:
            items = f"({items})?"
        return f'"[" ws {items} ws "]"'

    def _rule(self, body: str) -> str:
        name = self._names.setdefault(body, f"r{len(self._names)}")
        self.made[name] = body
        return name


def _literal(value: Any) -> str:
    """The JSON text of a value, as a GBNF string."""
    text = json.dumps(value, separators=(",", ":"))
    return json.dumps(text)
