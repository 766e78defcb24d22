# SPDX-License-Identifier: Apache-2.0
"""How a server takes to being asked for JSON is found out once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from misbehaving_server import (
    GOOD,
    Behaviour,
    MisbehavingServer,
    completion,
    fails,
    mode_of,
    says,
    takes,
)
from talk import Open, request, settle, told

from kope_tvm.chat.dialogue import Usage
from kope_tvm.chat.modes import ENDPOINTS

JSON_SCHEMA, JSON_OBJECT, GRAMMAR, TEXT = "json_schema", "json_object", "grammar", "text"


def modes_tried(server: MisbehavingServer) -> list[str]:
    return [mode_of(body) for body in server.bodies]


@pytest.mark.parametrize(
    ("refusal", "taken", "tried"),
    [
        (fails(500, "Internal Server Error"), JSON_OBJECT, [JSON_SCHEMA, JSON_OBJECT]),
        (
            fails(400, "response_format is not supported"),
            GRAMMAR,
            [JSON_SCHEMA, JSON_OBJECT, GRAMMAR],
        ),
        (fails(422, "Extra inputs are not permitted"), JSON_OBJECT, [JSON_SCHEMA, JSON_OBJECT]),
        (fails(404, "no endpoints support these parameters"), TEXT, None),
        (says(completion("Sure! Here is a schedule.")), TEXT, None),
        (fails(415), TEXT, None),
    ],
)
def test_a_mode_is_found_out_once_and_remembered(
    refusal: Behaviour, taken: str, tried: list[str] | None, opened: Open, tmp_path: Path
) -> None:
    every = [JSON_SCHEMA, JSON_OBJECT, GRAMMAR, TEXT]
    with MisbehavingServer(takes(taken, refusal=refusal)) as server:
        reply = told(opened(server.url))
        assert (reply.text, reply.mode, reply.error) == (GOOD, taken, "")
        assert modes_tried(server) == (tried or every)
        assert told(opened(server.url), "2").mode == taken
        assert modes_tried(server)[len(tried or every) :] == [taken]
        known = json.loads((tmp_path / "home" / ENDPOINTS).read_text())
        assert known[f"{server.url} m"]["mode"] == taken


def test_many_calls_at_first_find_the_mode_out_once(opened: Open) -> None:
    with MisbehavingServer(takes(GRAMMAR, refusal=fails(400, "bad"))) as server:
        dialogue = opened(server.url)
        calls = [dialogue.ask(request(str(number))) for number in range(6)]
        assert [call.result(20).mode for call in calls] == [GRAMMAR] * 6
        assert modes_tried(server) == [JSON_SCHEMA, JSON_OBJECT, *[GRAMMAR] * 6]


@pytest.mark.parametrize("status", [401, 429, 503])
def test_some_errors_say_nothing_of_modes(status: int, opened: Open, tmp_path: Path) -> None:
    with MisbehavingServer(fails(status)) as server:
        told(opened(server.url))
        assert set(modes_tried(server)) == {JSON_SCHEMA}
        assert not (tmp_path / "home" / ENDPOINTS).exists()


def test_a_request_that_is_too_long_says_nothing_of_modes(opened: Open) -> None:
    message = "This model's maximum context length is 512 tokens"
    with MisbehavingServer(fails(400, message)) as server:
        assert told(opened(server.url)).error == f"400: {message}"
        assert modes_tried(server) == [JSON_SCHEMA]


def test_prose_in_every_mode_is_a_reply_all_the_same(opened: Open) -> None:
    with MisbehavingServer(says(completion("Sure!"))) as server:
        reply = told(opened(server.url))
        assert (reply.text, reply.mode, reply.error) == ("Sure!", TEXT, "")
        assert reply.usage == Usage(400, 80)


def test_a_mode_that_fails_twice_is_left(opened: Open, tmp_path: Path) -> None:
    with MisbehavingServer(takes(TEXT, refusal=says(completion("Sure!")))) as server:
        settle(tmp_path / "home", server.url, GRAMMAR)
        dialogue = opened(server.url)
        assert told(dialogue, "1").text == "Sure!"
        reply = told(dialogue, "2")
        assert (reply.text, reply.mode) == (GOOD, TEXT)
        assert modes_tried(server) == [GRAMMAR, GRAMMAR, TEXT]


def test_the_other_name_of_the_limit_is_learnt(opened: Open) -> None:
    def answer(handler: Any, body: dict[str, Any]) -> None:
        wrong = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        good = "max_completion_tokens" in body and "max_tokens" not in body
        (says(completion()) if good else fails(400, wrong))(handler, body)

    with MisbehavingServer(answer) as server:
        reply = told(opened(server.url))
        assert (reply.mode, reply.error) == (JSON_SCHEMA, "")
        assert told(opened(server.url), "2").error == ""
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 600, 600]
