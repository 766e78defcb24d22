# SPDX-License-Identifier: Apache-2.0
"""An endpoint that is silent, gone or left costs no more than its deadline, once."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import wait
from pathlib import Path

import pytest
from misbehaving_server import (
    GOOD,
    Behaviour,
    MisbehavingServer,
    completion,
    drips,
    fails,
    never_answers,
    says,
)
from talk import Open, request, settle, told, wait_for

from kope_tvm.chat.dialogue import Spent


@pytest.mark.parametrize("behaviour", [never_answers, drips])
def test_one_deadline_bounds_a_call(behaviour: Behaviour, opened: Open) -> None:
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


def test_after_the_first_deadline_nobody_waits(opened: Open) -> None:
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


def test_an_endpoint_that_is_back_is_waited_for_again(opened: Open) -> None:
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


def test_probes_are_one_at_a_time_and_ever_more_seldom(opened: Open) -> None:
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
    url: str, reason: str, opened: Open
) -> None:
    dialogue = opened(url)
    assert told(dialogue).error.startswith(reason)
    assert dialogue.patience_secs == 0
    assert dialogue.spent == Spent(calls=1)
    assert len(dialogue.notices) == 1


def test_a_failing_handshake_is_no_connection(opened: Open) -> None:
    with MisbehavingServer(says(completion())) as server:
        reply = told(opened(server.url.replace("http:", "https:")))
        assert reply.error.startswith("cannot connect: ")
        assert "SSL" in reply.error


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_ends_the_waiting(status: int, opened: Open) -> None:
    with MisbehavingServer(fails(status, "no")) as server:
        dialogue = opened(server.url)
        told(dialogue)
        assert dialogue.patience_secs == 0
        assert dialogue.notices == (
            f"endpoint {server.url} said {status}: no; going on without it",
        )


def test_three_calls_in_a_row_that_fail_end_the_waiting(opened: Open, tmp_path: Path) -> None:
    with MisbehavingServer(fails(400, "no")) as server:
        settle(tmp_path / "home", server.url, "text")
        dialogue = opened(server.url)
        patience = []
        for number in range(3):
            told(dialogue, str(number))
            patience.append(dialogue.patience_secs)
        assert patience == [5.0, 5.0, 0.0]


def test_closing_ends_calls_in_flight(opened: Open) -> None:
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


def test_a_call_that_nobody_wants_any_more_leaves_its_place(opened: Open) -> None:
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
