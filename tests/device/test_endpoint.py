# SPDX-License-Identifier: Apache-2.0
"""An endpoint may answer anything: the reply says what was wrong, and what it cost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from misbehaving_server import (
    GOOD,
    Behaviour,
    MisbehavingServer,
    closes_at_once,
    closes_midway,
    completion,
    fails,
    floods,
    says,
    sends,
)
from talk import KEY, Open, request, settle, told

from kope_tvm.chat.dialogue import Spent, Usage
from kope_tvm.chat.exchanges import read_exchanges

# The wire: each way to go wrong, what the reply says of it, and what it is taken to cost.

BOUND = -1
"""All that was set aside."""

WAYS: dict[str, tuple[Behaviour, str, int]] = {
    "bad request": (fails(400, "no such field: \x1b[31mfoo"), "400: no such field: [31mfoo", 0),
    "wrong key": (fails(401, f"Incorrect API key: {KEY}"), "401: Incorrect API key: ***", 0),
    "forbidden": (fails(403, "not from here"), "403: not from here", 0),
    "no such model": (fails(404, "model m not found"), "404: model m not found", 0),
    "error as 200": (says({"error": {"message": "no", "code": 402}}), "402: no", 0),
    "redirect": (
        sends(b"", 307, Location="http://192.0.2.1:9/v1/chat?key=1"),
        "307: redirected to http://192.0.2.1:9/v1/chat; set base_url to where the API is",
        0,
    ),
    "empty": (says(completion("")), "empty reply", 120),
    "null": (says(completion(None)), "empty reply", 120),
    "refusal": (says(completion(None, refusal="I\ncannot")), "refused: I cannot", 120),
    "filter": (says(completion("", "content_filter")), "stopped by the content filter", 120),
    "reasoning": (
        says(completion(None, reasoning_content="hm")),
        "reasoning without an answer",
        120,
    ),
    "tool": (
        says(completion(None, tool_calls=[{"function": {"name": "open"}}])),
        "called a tool instead of answering",
        120,
    ),
    "no choices": (says({**completion(), "choices": []}), "no choices", 120),
    "odd choices": (says({**completion(), "choices": ["x"]}), "no choices", 120),
    "a list": (says([1]), "a JSON list, no completion", BOUND),
    "html": (
        sends(b"<html>welcome</html>", Content_Type="text/html"),
        "not JSON: <html>welcome</html>",
        BOUND,
    ),
    "broken JSON": (sends(b'{"choices": ['), 'not JSON: {"choices": [', BOUND),
    "deep JSON": (sends(b"[" * 100_000), "not JSON: " + "[" * 59 + "…", BOUND),
    "not text": (sends(b"\xff\xfe\x00"), "not JSON: \ufffd\ufffd", BOUND),
    "flood": (floods(200), "an answer of more than 1024 KiB", BOUND),
    "flood of an error": (floods(400), "400", 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_says_in_one_line_what_went_wrong(way: str, opened: Open, tmp_path: Path) -> None:
    behaviour, error, tokens = WAYS[way]
    with MisbehavingServer(behaviour) as server:
        settle(tmp_path / "home", server.url)
        dialogue = opened(server.url)
        reply = told(dialogue)
        assert (reply.error, len(server.bodies)) == (error, 1)
        if tokens == BOUND:
            assert reply.usage.is_estimated
            assert reply.usage.completion_tokens == 600
            assert reply.usage.prompt_tokens > 100
        else:
            assert reply.usage.total == tokens
        assert dialogue.spent.calls == 1
        assert dialogue.spent.tokens == reply.usage.total


def test_what_was_cut_off_is_kept_beside_the_error(opened: Open) -> None:
    with MisbehavingServer(says(completion('{"proposals": ["a', "length"))) as server:
        reply = told(opened(server.url))
        assert (reply.text, reply.error) == ('{"proposals": ["a', "truncated at 600 tokens")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": "70", "completion_tokens": "8"}, Usage(70, 8)),
        ({"prompt_tokens": 10**30, "completion_tokens": 8}, None),
        ({"prompt_tokens": 5_000_000, "completion_tokens": 8}, None),
        ({"prompt_tokens": 70, "completion_tokens": -8}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": 70}, None),
        ({"prompt_tokens": True, "completion_tokens": 1.5}, None),
        ("many", None),
        (None, None),
    ],
)
def test_usage_counts_as_said_or_else_as_all_set_aside(
    usage: object, expected: Usage | None, opened: Open
) -> None:
    with MisbehavingServer(says({**completion(), "usage": usage})) as server:
        reply = told(opened(server.url))
        assert (reply.text, reply.error) == (GOOD, "")
        if expected is None:
            assert reply.usage.is_estimated
            assert reply.usage.completion_tokens == 600
            assert 100 < reply.usage.prompt_tokens < 1000
        else:
            assert reply.usage == expected


def test_what_an_answer_names_is_passed_on_and_not_followed(opened: Open, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    text = json.dumps({"proposals": [f"__import__('pathlib').Path({str(trap)!r}).touch()"]})
    with MisbehavingServer(says(completion(text))) as server:
        assert told(opened(server.url)).text == text
    assert not trap.exists()


def test_a_redirect_takes_the_key_nowhere(opened: Open, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion())) as other:
        away = sends(b"", 308, Location=f"{other.url}/chat/completions")
        with MisbehavingServer(away) as server:
            assert told(opened(server.url)).error.startswith("308: redirected to")
        assert other.headers == []


def test_the_same_answer_twenty_times_is_twenty_calls(opened: Open) -> None:
    with MisbehavingServer(says(completion())) as server:
        dialogue = opened(server.url)
        replies = [
            future.result(30) for future in [dialogue.ask(request(str(n))) for n in range(20)]
        ]
        assert [reply.text for reply in replies] == [GOOD] * 20
        assert dialogue.spent == Spent(20, 2000, 400)
        assert server.most_in_flight <= 4


def test_parts_of_text_are_put_together(opened: Open) -> None:
    parts = [{"type": "text", "text": '{"stop"'}, {"type": "image"}, {"text": ": true}"}]
    with MisbehavingServer(says(completion(parts))) as server:
        assert told(opened(server.url)).text == '{"stop": true}'


def test_half_a_surrogate_pair_can_be_written_down(opened: Open, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion('{"a": "\ud800"}'))) as server:
        assert told(opened(server.url)).text == '{"a": "?"}'
    assert read_exchanges(tmp_path / "exchanges.jsonl")[0].reply.text == '{"a": "?"}'


@pytest.mark.parametrize(
    "first",
    [
        fails(429, "slow down"),
        fails(429, "slow down", Retry_After="0"),
        fails(429, "slow down", Retry_After="0.2"),
        fails(429, "slow down", retry_after_ms="200"),
        fails(502),
        fails(503),
        closes_midway,
        closes_at_once,
    ],
)
def test_what_may_pass_is_tried_again(first: Behaviour, opened: Open) -> None:
    with MisbehavingServer(first, says(completion())) as server:
        dialogue = opened(server.url)
        began = time.monotonic()
        assert told(dialogue).text == GOOD
        assert 0.15 < time.monotonic() - began < 3
        assert dialogue.spent.calls == len(server.bodies) == 2
        assert dialogue.notices == ()


def test_trying_ends(opened: Open) -> None:
    with MisbehavingServer(fails(429, "slow down")) as server:
        dialogue = opened(server.url, deadline_secs=10)
        assert told(dialogue).error == "429 after 3 tries: slow down"
        assert dialogue.spent == Spent(3, 0, 0)


def test_a_wait_that_no_call_can_afford_is_left_to_later_rounds(opened: Open) -> None:
    with MisbehavingServer(fails(429, "quota", Retry_After="3600")) as server:
        dialogue = opened(server.url)
        began = time.monotonic()
        assert told(dialogue).error == "429: asked to wait 3600 s"
        assert time.monotonic() - began < 2
        assert (dialogue.patience_secs, dialogue.is_open) == (0, False)
        assert dialogue.notices == (
            f"endpoint {server.url} said 429: asked to wait 3600 s; going on without it",
        )
