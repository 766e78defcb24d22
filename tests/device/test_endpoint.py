# SPDX-License-Identifier: Apache-2.0
"""An endpoint may do anything: each call ends in time, says what was wrong, and is paid for."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from misbehaving_server import (
    GOOD,
    Behaviour,
    MisbehavingServer,
    answers_after,
    closes_at_once,
    closes_midway,
    completion,
    drips,
    fails,
    floods,
    mode_of,
    never_answers,
    says,
    sends,
    takes,
)

from kope_tvm.chat.budget import Budget
from kope_tvm.chat.dialogue import Reply, Request, Spent, Usage
from kope_tvm.chat.exchanges import Exchanges, read_exchanges
from kope_tvm.chat.live import LiveDialogue
from kope_tvm.chat.modes import ENDPOINTS
from kope_tvm.config import Endpoint

KEY = "sk-kope-0123456789-secret"
SCHEMA = {
    "type": "object",
    "properties": {
        "proposals": {"type": "array", "items": {"type": "string"}},
        "stop": {"type": "boolean"},
    },
    "required": ["proposals", "stop"],
    "additionalProperties": False,
}
JSON_SCHEMA, JSON_OBJECT, GRAMMAR, TEXT = "json_schema", "json_object", "grammar", "text"

Ask = Callable[..., LiveDialogue]


def request(subject: str = "1", max_output_tokens: int = 600) -> Request:
    return Request(
        "task",
        "propose",
        subject,
        "You write schedules.",
        "Propose one.",
        SCHEMA,
        max_output_tokens=max_output_tokens,
    )


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Opens dialogues that are closed at the end."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    dialogues: list[LiveDialogue] = []

    def open_at(
        url: str, deadline_secs: float = 5.0, budget: Budget | None = None, model: str = "m"
    ) -> LiveDialogue:
        endpoint = Endpoint(base_url=url, model=model, deadline_secs=deadline_secs)
        exchanges = Exchanges(tmp_path / "exchanges.jsonl", environment={"OPENAI_API_KEY": KEY})
        dialogue = LiveDialogue(endpoint, KEY, budget or Budget(), exchanges, tmp_path / "home")
        dialogues.append(dialogue)
        return dialogue

    yield open_at
    for dialogue in dialogues:
        dialogue.close()


def told(dialogue: LiveDialogue, subject: str = "1") -> Reply:
    return dialogue.ask(request(subject)).result(timeout=30)


def settle(home: Path, url: str, mode: str = JSON_SCHEMA) -> None:
    """Let a mode be known already, as in a second run."""
    home.mkdir(exist_ok=True)
    known = {f"{url} m": {"mode": mode, "limit": "max_tokens", "found": "2999-01-01"}}
    (home / ENDPOINTS).write_text(json.dumps(known))


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
def test_a_reply_says_in_one_line_what_went_wrong(way: str, opened: Ask, tmp_path: Path) -> None:
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


def test_what_was_cut_off_is_kept_beside_the_error(opened: Ask) -> None:
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
    usage: object, expected: Usage | None, opened: Ask
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


def test_what_an_answer_names_is_passed_on_and_not_followed(opened: Ask, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    text = json.dumps({"proposals": [f"__import__('pathlib').Path({str(trap)!r}).touch()"]})
    with MisbehavingServer(says(completion(text))) as server:
        assert told(opened(server.url)).text == text
    assert not trap.exists()


def test_a_redirect_takes_the_key_nowhere(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion())) as other:
        away = sends(b"", 308, Location=f"{other.url}/chat/completions")
        with MisbehavingServer(away) as server:
            assert told(opened(server.url)).error.startswith("308: redirected to")
        assert other.headers == []


def test_the_same_answer_twenty_times_is_twenty_calls(opened: Ask) -> None:
    with MisbehavingServer(says(completion())) as server:
        dialogue = opened(server.url)
        replies = [
            future.result(30) for future in [dialogue.ask(request(str(n))) for n in range(20)]
        ]
        assert [reply.text for reply in replies] == [GOOD] * 20
        assert dialogue.spent == Spent(20, 2000, 400)
        assert server.most_in_flight <= 4


def test_parts_of_text_are_put_together(opened: Ask) -> None:
    parts = [{"type": "text", "text": '{"stop"'}, {"type": "image"}, {"text": ": true}"}]
    with MisbehavingServer(says(completion(parts))) as server:
        assert told(opened(server.url)).text == '{"stop": true}'


def test_half_a_surrogate_pair_can_be_written_down(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion('{"a": "\ud800"}'))) as server:
        assert told(opened(server.url)).text == '{"a": "?"}'
    assert read_exchanges(tmp_path / "exchanges.jsonl")[0].reply.text == '{"a": "?"}'


# Trying again.


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
def test_what_may_pass_is_tried_again(first: Behaviour, opened: Ask) -> None:
    with MisbehavingServer(first, says(completion())) as server:
        dialogue = opened(server.url)
        began = time.monotonic()
        assert told(dialogue).text == GOOD
        assert 0.15 < time.monotonic() - began < 3
        assert dialogue.spent.calls == len(server.bodies) == 2
        assert dialogue.notices == ()


def test_trying_ends(opened: Ask) -> None:
    with MisbehavingServer(fails(429, "slow down")) as server:
        dialogue = opened(server.url, deadline_secs=10)
        assert told(dialogue).error == "429 after 3 tries: slow down"
        assert dialogue.spent == Spent(3, 0, 0)


def test_a_wait_that_no_call_can_afford_is_left_to_later_rounds(opened: Ask) -> None:
    with MisbehavingServer(fails(429, "quota", Retry_After="3600")) as server:
        dialogue = opened(server.url)
        began = time.monotonic()
        assert told(dialogue).error == "429: asked to wait 3600 s"
        assert time.monotonic() - began < 2
        assert (dialogue.patience_secs, dialogue.is_open) == (0, False)
        assert dialogue.notices == (
            f"endpoint {server.url} said 429: asked to wait 3600 s; going on without it",
        )


# Deadlines.


@pytest.mark.parametrize("behaviour", [never_answers, drips])
def test_one_deadline_bounds_a_call(behaviour: Behaviour, opened: Ask) -> None:
    with MisbehavingServer(behaviour) as server:
        dialogue = opened(server.url, deadline_secs=0.6)
        warm_up()
        began = time.monotonic()
        reply = told(dialogue)
        assert reply.error == "no answer within 0.6 s"
        assert 0.6 <= time.monotonic() - began < 2.5
        assert reply.usage.is_estimated
        assert reply.usage.completion_tokens == 600
        assert dialogue.spent.tokens == reply.usage.total


def warm_up() -> None:
    """Importing the client takes longer than the deadlines here."""
    import kope_tvm.chat.endpoint  # noqa: F401


def test_after_the_first_deadline_nobody_waits(opened: Ask) -> None:
    warm_up()
    with MisbehavingServer(never_answers) as server:
        dialogue = opened(server.url, deadline_secs=0.5)
        assert (dialogue.is_open, dialogue.patience_secs) == (True, 0.5)
        calls = [dialogue.ask(request(str(number))) for number in range(8)]
        began = time.monotonic()
        wait(calls, timeout=10)
        assert time.monotonic() - began < 2.5
        errors = [call.result().error for call in calls]
        assert errors == ["no answer within 0.5 s"] + ["endpoint given up"] * 7
        assert (dialogue.is_open, dialogue.patience_secs) == (False, 0)

        began = time.monotonic()
        assert all(dialogue.ask(request("later")).done() for _ in range(50))
        assert time.monotonic() - began < 0.5
        assert len(server.bodies) == 1
        assert dialogue.notices == (
            f"endpoint {server.url} gave no answer within 0.5 s; going on without it",
        )


def test_an_endpoint_that_is_back_is_waited_for_again(opened: Ask) -> None:
    warm_up()
    with MisbehavingServer(never_answers) as server:
        dialogue = opened(server.url, deadline_secs=0.4)
        told(dialogue)
        server.behave(says(completion()))
        time.sleep(0.45)
        assert (dialogue.is_open, dialogue.patience_secs) == (True, 0)
        probe = dialogue.ask(request("probe"))
        assert probe.result(10).text == GOOD
        assert (dialogue.is_open, dialogue.patience_secs) == (True, 0.4)
        assert dialogue.notices[1:] == (f"endpoint {server.url} answers again",)


def test_probes_are_one_at_a_time_and_ever_more_seldom(opened: Ask) -> None:
    warm_up()
    with MisbehavingServer(never_answers) as server:
        dialogue = opened(server.url, deadline_secs=0.15)
        ends_at = time.monotonic() + 1.8
        while time.monotonic() < ends_at:
            dialogue.ask(request("again"))
            time.sleep(0.02)
        # Sent at 0 s, 0.3 s, 0.75 s and 1.5 s: pauses of 0.15 s, 0.3 s and 0.6 s after a deadline.
        assert len(server.bodies) in (3, 4)
        assert len(dialogue.notices) == 1


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/v1", "cannot connect: Connection refused"),
        ("http://no-such-host.invalid/v1", "cannot connect: "),
        ("ftp://127.0.0.1/v1", "cannot connect: "),
        ("http://[::1/v1", "cannot connect: "),
        ("not an address", "cannot connect: "),
    ],
)
def test_an_endpoint_that_is_not_there_is_given_up_at_once(
    url: str, reason: str, opened: Ask
) -> None:
    dialogue = opened(url)
    assert told(dialogue).error.startswith(reason)
    assert dialogue.patience_secs == 0
    assert dialogue.spent == Spent(calls=1)
    assert len(dialogue.notices) == 1


def test_a_failing_handshake_is_no_connection(opened: Ask) -> None:
    with MisbehavingServer(says(completion())) as server:
        reply = told(opened(server.url.replace("http:", "https:")))
        assert reply.error.startswith("cannot connect: ")
        assert "SSL" in reply.error


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_ends_the_waiting(status: int, opened: Ask) -> None:
    with MisbehavingServer(fails(status, "no")) as server:
        dialogue = opened(server.url)
        told(dialogue)
        assert dialogue.patience_secs == 0
        assert dialogue.notices == (
            f"endpoint {server.url} said {status}: no; going on without it",
        )


def test_three_calls_in_a_row_that_fail_end_the_waiting(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(fails(400, "no")) as server:
        settle(tmp_path / "home", server.url, TEXT)
        dialogue = opened(server.url)
        patience = []
        for number in range(3):
            told(dialogue, str(number))
            patience.append(dialogue.patience_secs)
        assert patience == [5.0, 5.0, 0.0]


# Leaving.


def test_closing_ends_calls_in_flight(opened: Ask) -> None:
    with MisbehavingServer(never_answers) as server:
        dialogue = opened(server.url, deadline_secs=30)
        calls = [dialogue.ask(request(str(number))) for number in range(6)]
        wait_for(lambda: bool(server.bodies))
        began = time.monotonic()
        dialogue.close()
        assert [call.result(1).error for call in calls] == ["closed"] * 6
        assert time.monotonic() - began < 1.5
        assert dialogue.ask(request()).result(0).error == "closed"
        assert (dialogue.is_open, dialogue.patience_secs) == (False, 0)


def test_a_call_that_nobody_wants_any_more_leaves_its_place(opened: Ask) -> None:
    with MisbehavingServer(never_answers, says(completion())) as server:
        dialogue = opened(server.url, deadline_secs=30)
        first = dialogue.ask(request("first"))
        wait_for(lambda: bool(server.bodies))
        assert first.cancel()
        assert told(dialogue, "second").text == GOOD


def test_the_interpreter_does_not_wait_for_a_call(tmp_path: Path) -> None:
    with MisbehavingServer(never_answers) as server:
        code = (
            "import sys, time\n"
            "from pathlib import Path\n"
            "from kope_tvm.chat.budget import Budget\n"
            "from kope_tvm.chat.dialogue import Request\n"
            "from kope_tvm.chat.exchanges import Exchanges\n"
            "from kope_tvm.chat.live import LiveDialogue\n"
            "from kope_tvm.config import Endpoint\n"
            f"home = Path({str(tmp_path)!r})\n"
            f"endpoint = Endpoint(base_url={server.url!r}, model='m', deadline_secs=60)\n"
            "dialogue = LiveDialogue(endpoint, '', Budget(), Exchanges(home / 'e'), home)\n"
            "dialogue.ask(Request('t', 'propose', '1', 's', 'p', {}))\n"
            "sys.stdin.readline()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_for(lambda: bool(server.bodies), secs=30)
        began = time.monotonic()
        said, _ = process.communicate("go\n", timeout=30)
        assert (process.returncode, said) == (0, "")
        assert time.monotonic() - began < 2


def wait_for(happened: Callable[[], bool], secs: float = 10) -> None:
    ends_at = time.monotonic() + secs
    while not happened():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


# The budget.


def test_every_request_is_a_call_and_none_is_sent_that_does_not_fit(opened: Ask) -> None:
    with MisbehavingServer(fails(503)) as server:
        dialogue = opened(server.url, budget=Budget(max_calls=2))
        assert told(dialogue).error == "budget"
        assert (len(server.bodies), dialogue.spent.calls, dialogue.is_open) == (2, 2, False)
        assert told(dialogue, "2").error == "budget"
        assert len(server.bodies) == 2


def test_tokens_are_never_exceeded_by_calls_in_flight(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(answers_after(0.2, says(completion()))) as server:
        settle(tmp_path / "home", server.url)
        dialogue = opened(server.url, budget=Budget(max_tokens=2000))
        calls = [dialogue.ask(request(str(number))) for number in range(30)]
        errors = [call.result(30).error for call in calls]
        # Each may use 600 tokens and its prompt, some 100: two fit, and the third would not.
        assert sorted(errors) == ["", "", *["budget"] * 28]
        assert dialogue.spent == Spent(2, 200, 40)
        while not told(dialogue, "more").error:
            pass
        # The last one starts with 750 or so left, and uses 120 of them.
        assert 1250 <= dialogue.spent.tokens <= 1450


# Modes.


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
    refusal: Behaviour, taken: str, tried: list[str] | None, opened: Ask, tmp_path: Path
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


def test_many_calls_at_first_find_the_mode_out_once(opened: Ask) -> None:
    with MisbehavingServer(takes(GRAMMAR, refusal=fails(400, "bad"))) as server:
        dialogue = opened(server.url)
        calls = [dialogue.ask(request(str(number))) for number in range(6)]
        assert [call.result(20).mode for call in calls] == [GRAMMAR] * 6
        assert modes_tried(server) == [JSON_SCHEMA, JSON_OBJECT, *[GRAMMAR] * 6]


@pytest.mark.parametrize("status", [401, 429, 503])
def test_some_errors_say_nothing_of_modes(status: int, opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(fails(status)) as server:
        told(opened(server.url))
        assert set(modes_tried(server)) == {JSON_SCHEMA}
        assert not (tmp_path / "home" / ENDPOINTS).exists()


def test_a_request_that_is_too_long_says_nothing_of_modes(opened: Ask) -> None:
    message = "This model's maximum context length is 512 tokens"
    with MisbehavingServer(fails(400, message)) as server:
        assert told(opened(server.url)).error == f"400: {message}"
        assert modes_tried(server) == [JSON_SCHEMA]


def test_prose_in_every_mode_is_a_reply_all_the_same(opened: Ask) -> None:
    with MisbehavingServer(says(completion("Sure!"))) as server:
        reply = told(opened(server.url))
        assert (reply.text, reply.mode, reply.error) == ("Sure!", TEXT, "")
        assert reply.usage == Usage(400, 80)


def test_a_mode_that_fails_twice_is_left(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(takes(TEXT, refusal=says(completion("Sure!")))) as server:
        settle(tmp_path / "home", server.url, GRAMMAR)
        dialogue = opened(server.url)
        assert told(dialogue, "1").text == "Sure!"
        reply = told(dialogue, "2")
        assert (reply.text, reply.mode) == (GOOD, TEXT)
        assert modes_tried(server) == [GRAMMAR, GRAMMAR, TEXT]


def test_the_other_name_of_the_limit_is_learnt(opened: Ask) -> None:
    def answer(handler: Any, body: dict[str, Any]) -> None:
        wrong = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        good = "max_completion_tokens" in body and "max_tokens" not in body
        (says(completion()) if good else fails(400, wrong))(handler, body)

    with MisbehavingServer(answer) as server:
        reply = told(opened(server.url))
        assert (reply.mode, reply.error) == (JSON_SCHEMA, "")
        assert told(opened(server.url), "2").error == ""
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 600, 600]


# Secrets and the record.


def test_the_key_is_sent_and_found_nowhere_else(
    opened: Ask, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    echo = json.dumps({"proposals": [f"Bearer {KEY}"]})
    with (
        caplog.at_level(logging.DEBUG),
        MisbehavingServer(
            fails(401, f"bad key {KEY} of tim:pa55word-x"), says(completion(echo))
        ) as s,
    ):
        url = s.url.replace("http://", "http://tim:pa55word-x@") + "?key=query-secret"
        dialogue = opened(url, deadline_secs=0.3)
        replies = [told(dialogue)]
        time.sleep(0.35)
        replies.append(told(dialogue, "2"))
        assert s.headers[0]["Authorization"].startswith("Basic ")
        assert s.paths[0] == "/v1/chat/completions?key=query-secret"
        assert [reply.error for reply in replies] == ["401: bad key *** of tim:***", ""]
        told(opened(s.url), "3")
        assert s.headers[-1]["Authorization"] == f"Bearer {KEY}"
    kept = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    shown = [kept, caplog.text, *map(repr, replies), *dialogue.notices, replies[1].text]
    for text in shown:
        assert KEY not in text
        assert "pa55word-x" not in text
        assert "query-secret" not in text


@pytest.mark.parametrize("key", [f"{KEY}\n", "schlüssel-0123456789", "two\nlines-0123456789"])
def test_a_malformed_key_is_an_error_without_it(key: str, opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion())) as server:
        endpoint = Endpoint(base_url=server.url, model="m", deadline_secs=5)
        exchanges = Exchanges(tmp_path / "exchanges.jsonl")
        dialogue = LiveDialogue(endpoint, key, Budget(), exchanges, tmp_path)
        reply = told(dialogue)
        dialogue.close()
        assert (reply.text == GOOD) == (key.strip() == KEY)
        assert "0123456789" not in reply.error + "".join(dialogue.notices)


def test_every_reply_is_on_record_before_it_is_given(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion()), fails(401, "no")) as server:
        dialogue = opened(server.url)
        for subject in ("1", "2", "3"):
            told(dialogue, subject)
            dialogue.note(request(subject), [])
        kept = read_exchanges(tmp_path / "exchanges.jsonl")
        errors = [each.reply.error for each in kept]
        assert errors == ["", "401: no", "endpoint given up"]


def test_a_record_that_cannot_be_written_is_heard_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with MisbehavingServer(says(completion())) as server:
        endpoint = Endpoint(base_url=server.url, model="m", deadline_secs=5)
        exchanges = Exchanges(tmp_path / "file" / "exchanges.jsonl")
        dialogue = LiveDialogue(endpoint, "", Budget(), exchanges, tmp_path)
        assert told(dialogue).text == GOOD
        dialogue.close()
        assert len(dialogue.notices) == 1


def test_threads_may_ask_at_once(opened: Ask, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion())) as server:
        settle(tmp_path / "home", server.url)
        dialogue = opened(server.url)
        calls: list[Future[Reply]] = []

        def ask(subject: str) -> None:
            calls.append(dialogue.ask(request(subject)))

        threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {call.result(20).text for call in calls} == {GOOD}
        assert dialogue.spent.calls == 16
