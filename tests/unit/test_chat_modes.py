# SPDX-License-Identifier: Apache-2.0
"""How JSON is asked for, what tells that a way is not taken, and what is remembered of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kope_tvm.chat.dialogue import Request
from kope_tvm.chat.grammar import grammar_of
from kope_tvm.chat.modes import ENDPOINTS, LADDER, Modes, is_blamed, is_kept

URL = "http://127.0.0.1:8080/v1"
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "required": ["a"], "additionalProperties": False}


def request(schema: dict[str, Any]) -> Request:
    return Request("task", "propose", "1", "system", "prompt", schema)


@pytest.fixture
def modes(tmp_path: Path) -> Modes:
    return Modes(tmp_path, URL, "m")


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)])
def test_a_schema_is_strict_only_where_it_may_be(
    schema: dict[str, Any], strict: bool, modes: Modes
) -> None:
    assert modes.options(request(schema), "json_schema") == {
        "max_tokens": 600,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": schema, "strict": strict},
        },
    }


@pytest.mark.parametrize(
    ("inner", "strict"),
    [
        (CLOSED, True),
        (OPEN, False),
        ({"anyOf": [CLOSED, {"type": "null"}]}, True),
        ({"anyOf": [CLOSED, OPEN]}, False),
        ({"type": "array", "items": OPEN}, False),
        ({"enum": [{"type": "object"}]}, True),
    ],
)
def test_all_objects_within_are_looked_at(
    inner: dict[str, Any], strict: bool, modes: Modes
) -> None:
    outer = {**CLOSED, "properties": {"a": inner}}
    asked = modes.options(request(outer), "json_schema")
    assert asked["response_format"]["json_schema"]["strict"] is strict


def test_the_other_ways_of_asking(modes: Modes) -> None:
    limit = {"max_tokens": 600}
    json_object = {"response_format": {"type": "json_object", "schema": OPEN}}
    assert modes.options(request(OPEN), "json_object") == {**limit, **json_object}
    assert modes.options(request(OPEN), "grammar") == {**limit, "grammar": grammar_of(OPEN)}
    assert modes.options(request(OPEN), "text") == limit


@pytest.mark.parametrize(
    ("mode", "status", "error", "blamed"),
    [
        ("json_schema", 500, "Internal Server Error", True),
        ("json_schema", 400, "", True),
        ("json_schema", 422, "Input should be 'text' or 'json_object'", True),
        ("json_schema", 404, "Not Found", False),
        ("json_schema", 404, "No endpoints found that support these parameters", True),
        ("grammar", 400, "Unrecognized request argument supplied: grammar", True),
        ("json_object", 400, "This model's maximum context length is 512 tokens", False),
        ("json_object", 400, "The model `m` does not exist", False),
        ("json_schema", 401, "response_format", False),
        ("json_schema", 429, "", False),
        ("json_schema", 503, "", False),
        ("text", 400, "response_format", False),
    ],
)
def test_what_tells_that_a_mode_is_not_taken(
    mode: str, status: int, error: str, blamed: bool
) -> None:
    assert is_blamed(mode, status, error) is blamed


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"stop": true}', True),
        ('```json\n{"stop": true}\n```', True),
        ("Sure! Here it is.", False),
        ("[1]", False),
        ('{"stop": tr', False),
        ('{"a":' * 100_000, False),
    ],
)
def test_what_tells_that_a_promise_is_not_kept(text: str, kept: bool) -> None:
    assert is_kept("json_object", text) is kept
    assert is_kept("text", text)


def test_rungs_are_tried_from_the_strictest_down(modes: Modes) -> None:
    assert tuple(modes.rungs()) == LADDER


def test_what_worked_is_known_the_next_time(tmp_path: Path, modes: Modes) -> None:
    modes.turned("use 'max_completion_tokens' instead")
    modes.worked("grammar")
    again = Modes(tmp_path, URL, "m")
    assert (again.is_settled, again.mode, again.limit_name) == (
        True,
        "grammar",
        "max_completion_tokens",
    )
    assert tuple(again.rungs()) == ("grammar",)
    assert not Modes(tmp_path, URL, "another").is_settled
    assert [path.name for path in tmp_path.iterdir()] == [ENDPOINTS]


def test_endpoints_are_remembered_side_by_side(tmp_path: Path, modes: Modes) -> None:
    other = Modes(tmp_path, "http://127.0.0.1:9/v1", "m")
    modes.worked("text")
    other.worked("json_object")
    assert (Modes(tmp_path, URL, "m").mode, len(stored(tmp_path))) == ("text", 2)


@pytest.mark.parametrize(
    ("known", "settled"),
    [
        ({"mode": "json_schema", "limit": "max_tokens", "found": "2001-01-01"}, True),
        ({"mode": "text", "limit": "max_tokens", "found": "2001-01-01"}, False),
        ({"mode": "text", "limit": "max_tokens", "found": "2999-01-01"}, True),
        ({"mode": "text", "limit": "n_predict", "found": "2999-01-01"}, True),
        ({"mode": "text", "found": None}, False),
        ({"mode": "xml", "found": "2999-01-01"}, False),
        ("text", False),
    ],
)
def test_only_what_is_sound_and_fresh_is_believed(
    known: object, settled: bool, tmp_path: Path
) -> None:
    (tmp_path / ENDPOINTS).write_text(json.dumps({f"{URL} m": known}))
    modes = Modes(tmp_path, URL, "m")
    assert (modes.is_settled, modes.limit_name) == (settled, "max_tokens")


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_damaged_file_is_written_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / ENDPOINTS).write_text(text)
    Modes(tmp_path, URL, "m").worked("text")
    assert list(stored(tmp_path)) == [f"{URL} m"]


def test_a_home_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    modes = Modes(tmp_path / "file", URL, "m")
    modes.worked("text")
    assert modes.mode == "text"


def test_a_mode_is_left_at_its_second_failure_in_a_row(modes: Modes) -> None:
    modes.worked("json_schema")
    modes.missed("json_schema")
    modes.worked("json_schema")
    modes.missed("json_schema")
    assert modes.is_settled
    rungs = modes.rungs()
    modes.missed(next(rungs))
    assert tuple(rungs) == ("json_object", "grammar", "text")


def test_the_limit_changes_its_name_once(modes: Modes) -> None:
    assert not modes.turned("400: bad request")
    assert modes.turned("400: use 'max_completion_tokens'")
    assert not modes.turned("400: 'max_completion_tokens' is too large")


def stored(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / ENDPOINTS).read_text())
    return found
