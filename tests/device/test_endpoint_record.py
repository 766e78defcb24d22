# SPDX-License-Identifier: Apache-2.0
"""What leaves the process: calls within the budget, a record, and no secrets."""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from misbehaving_server import (
    GOOD,
    MisbehavingServer,
    answers_after,
    completion,
    fails,
    says,
)
from talk import KEY, Open, request, settle, told

from kope_tvm.chat.budget import Budget
from kope_tvm.chat.dialogue import Reply, Spent
from kope_tvm.chat.exchanges import Exchanges, read_exchanges
from kope_tvm.chat.live import LiveDialogue
from kope_tvm.config import Endpoint


def test_every_request_is_a_call_and_none_is_sent_that_does_not_fit(opened: Open) -> None:
    with MisbehavingServer(fails(503)) as server:
        dialogue = opened(server.url, budget=Budget(max_calls=2))
        assert told(dialogue).error == "budget"
        assert (len(server.bodies), dialogue.spent.calls, dialogue.is_open) == (2, 2, False)
        assert told(dialogue, "2").error == "budget"
        assert len(server.bodies) == 2


def test_tokens_are_never_exceeded_by_calls_in_flight(opened: Open, tmp_path: Path) -> None:
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


def test_the_key_is_sent_and_found_nowhere_else(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
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
def test_a_malformed_key_is_an_error_without_it(key: str, opened: Open, tmp_path: Path) -> None:
    with MisbehavingServer(says(completion())) as server:
        endpoint = Endpoint(base_url=server.url, model="m", deadline_secs=5)
        exchanges = Exchanges(tmp_path / "exchanges.jsonl")
        dialogue = LiveDialogue(endpoint, key, Budget(), exchanges, tmp_path)
        reply = told(dialogue)
        dialogue.close()
        assert (reply.text == GOOD) == (key.strip() == KEY)
        assert "0123456789" not in reply.error + "".join(dialogue.notices)


def test_every_reply_is_on_record_before_it_is_given(opened: Open, tmp_path: Path) -> None:
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


def test_threads_may_ask_at_once(opened: Open, tmp_path: Path) -> None:
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
