# SPDX-License-Identifier: Apache-2.0
"""JSON schemas as GBNF, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from kope_tvm.chat.grammar import grammar_of


def rules(schema: dict[str, Any]) -> dict[str, str]:
    parted = (line.partition(" ::= ") for line in grammar_of(schema).splitlines())
    return {name: body for name, _, body in parted}


@pytest.mark.parametrize(
    ("schema", "root"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "string"}, "string"),
        ({"type": "array"}, "array"),
        ({"type": "object"}, "object"),
        ({"const": 'a"b'}, r'"\"a\\\"b\""'),
        ({"const": [1, 2]}, '"[1,2]"'),
        ({}, "value"),
        ({"$ref": "#/x"}, "value"),
    ],
)
def test_what_needs_no_rule_of_its_own(schema: dict[str, Any], root: str) -> None:
    assert rules(schema)["root"] == f"ws {root} ws"


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        ({"enum": ["s1", "s2", "s1"]}, r'"\"s1\"" | "\"s2\""'),
        ({"enum": [[1, 32], 64, None]}, '"[1,32]" | "64" | "null"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"oneOf": [{"const": 1}, {"type": "boolean"}]}, '"1" | boolean'),
        ({"type": ["integer", "null"]}, "integer | null"),
    ],
)
def test_choices_are_a_rule(schema: dict[str, Any], choices: str) -> None:
    found = rules(schema)
    assert (found["root"], found["r0"]) == ("ws r0 ws", choices)


@pytest.mark.parametrize(
    ("bounds", "items"),
    [
        ({}, '(integer (ws "," ws integer){0,})?'),
        ({"minItems": 1}, 'integer (ws "," ws integer){0,}'),
        ({"minItems": 2, "maxItems": 2}, 'integer (ws "," ws integer){1,1}'),
        ({"maxItems": 3}, '(integer (ws "," ws integer){0,2})?'),
        ({"maxItems": 0}, '""'),
    ],
)
def test_arrays(bounds: dict[str, int], items: str) -> None:
    found = rules({"type": "array", "items": {"type": "integer"}, **bounds})
    assert found["r0"] == f'"[" ws {items} ws "]"'


def pair(name: str, comma: bool = False) -> str:
    lead = 'ws "," ws ' if comma else ""
    return lead + rf'"\"{name}\"" ws ":" ws null'


def body(schema_required: list[str]) -> dict[str, str]:
    properties = {name: {"type": "null"} for name in "abc"}
    return rules({"type": "object", "properties": properties, "required": schema_required})


def test_properties_come_in_their_order() -> None:
    inside = f"{pair('a')} {pair('b', comma=True)} {pair('c', comma=True)}"
    assert body(["a", "b", "c"])["r0"] == f'"{{" ws {inside} ws "}}"'


def test_what_is_not_required_may_be_left_out_with_its_comma() -> None:
    inside = f"{pair('a')} ({pair('b', comma=True)})? ({pair('c', comma=True)})?"
    assert body(["a"])["r0"] == f'"{{" ws {inside} ws "}}"'


def test_a_first_property_that_is_left_out_takes_no_comma_along() -> None:
    found = body(["b", "c"])
    others = f"{pair('b', comma=True)} {pair('c', comma=True)}"
    alone = f"{pair('b')} {pair('c', comma=True)}"
    assert found["r0"] == f"{pair('a')} {others} | {alone}"
    assert found["r1"] == '"{" ws r0 ws "}"'


def test_an_object_may_be_empty_where_nothing_is_required() -> None:
    assert body([])["r0"] == f'{pair("c")} | ""'


def test_equal_schemas_share_a_rule() -> None:
    knob = {"enum": ["d1", "d2"]}
    found = rules({"type": "object", "properties": {"a": knob, "b": knob}, "required": ["a", "b"]})
    assert [name for name in found if name.startswith("r") and name != "root"] == ["r0", "r1"]


def test_every_rule_named_is_there() -> None:
    found = rules({"type": "array", "items": {"anyOf": [{"type": "object"}, {"enum": ["x"]}]}})
    named = {"ws", "char", "hex", "string", "integer", "number", "boolean", "null", "value"}
    assert named | {"root", "array", "object", "r0", "r1", "r2"} == set(found)
