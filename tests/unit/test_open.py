# SPDX-License-Identifier: Apache-2.0
"""Who a run talks with follows from the options, the settings and whether the server answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kope_tvm.chat.budget import Limits, Price
from kope_tvm.chat.dialogue import Dialogue, Reply, Request
from kope_tvm.chat.exchanges import Exchanges
from kope_tvm.chat.modes import Modes
from kope_tvm.chat.open import open_dialogue
from kope_tvm.chat.reachable import unreachable
from kope_tvm.chat.replayed import ReplayDialogue
from kope_tvm.config import Endpoint
from kope_tvm.doctor import examine
from kope_tvm.errors import UsageError

KEY_ENV = "KOPE_TEST_KEY"
SILENT_SECS = 0.3


class Server(BaseHTTPRequestHandler):
    """Answers with the status that the first part of the path names, and keeps what it was sent."""

    seen: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Location", "/200/v1/models")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    Server.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def listening() -> Iterator[str]:
    """The address of a server that accepts and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def free_address() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def endpoint(address: str, status: int = 200, user: str = "") -> Endpoint:
    return Endpoint(f"http://{user}{address}/{status}/v1", "m1", KEY_ENV)


@pytest.mark.parametrize("status", [200, 404, 405, 500, 503, 302])
def test_any_answer_will_do(address: str, status: int) -> None:
    assert unreachable(endpoint(address, status), "") == ""


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_said(address: str, status: int) -> None:
    assert unreachable(endpoint(address, status), "k") == f"{status}: the key is refused"


def test_the_key_goes_to_the_server_and_no_redirection_is_followed(address: str) -> None:
    Server.seen.clear()
    unreachable(endpoint(address, 302), " k \n")
    assert Server.seen == [("/302/v1/models", "Bearer k")]


def test_a_user_of_the_address_stands_above_the_key(address: str) -> None:
    Server.seen.clear()
    unreachable(endpoint(address, user="me:p%40w@"), "k")
    assert Server.seen == [("/200/v1/models", "Basic bWU6cEB3")]


def test_nobody_there_is_said_at_once() -> None:
    assert unreachable(endpoint(free_address()), "") == "Connection refused"


def test_a_silent_server_costs_the_time_limit_and_no_more() -> None:
    with listening() as address:
        began = time.perf_counter()
        assert unreachable(endpoint(address), "", SILENT_SECS) == "no answer within 0.3 s"
    assert time.perf_counter() - began < SILENT_SECS + 0.5


def test_doctor_says_whether_it_answers_and_how_it_is_asked_for_json(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KOPE_HOME", str(tmp_path))
    one = endpoint(address)
    given = {"OPENAI_BASE_URL": one.base_url, "KOPE_MODEL": "m1"}
    set_up = f"base_url {one.base_url}, model m1, OPENAI_API_KEY unset"
    assert endpoint_finding(given) == (True, f"{set_up}, answers, JSON mode not found out yet")
    Modes(tmp_path, one.shown_url, "m1").worked("json_object")
    assert endpoint_finding(given) == (True, f"{set_up}, answers, JSON mode json_object")


def endpoint_finding(environment: dict[str, str]) -> tuple[bool, str]:
    found = {one.name: one for one in examine(environment)}["endpoint"]
    return found.ok, found.value


class Opened:
    """What `open_dialogue` gave for some options."""

    def __init__(
        self,
        folder: Path,
        proposer: str,
        endpoint: Endpoint,
        limits: Limits | None = None,
        exchanges: Path | None = None,
    ) -> None:
        self.said: list[str] = []
        self.work_dir = folder / "work"
        self.dialogue: Dialogue | None = open_dialogue(
            proposer,
            endpoint,
            limits or Limits(),
            exchanges,
            self.work_dir,
            folder / "home",
            self.said.append,
        )
        if self.dialogue is not None:
            self.dialogue.close()


def test_auto_asks_a_server_that_answers(tmp_path: Path, address: str) -> None:
    opened = Opened(tmp_path, "auto", endpoint(address))
    assert type(opened.dialogue).__name__ == "LiveDialogue"
    assert opened.said == [f"asking m1 at {address}"]
    assert not opened.work_dir.exists()


def test_auto_goes_on_alone_without_an_endpoint(tmp_path: Path) -> None:
    opened = Opened(tmp_path, "auto", Endpoint())
    assert opened.dialogue is None
    assert opened.said == ["proposing from experience alone: no endpoint is set"]


def test_auto_goes_on_alone_where_nobody_answers(tmp_path: Path) -> None:
    address = free_address()
    opened = Opened(tmp_path, "auto", endpoint(address))
    assert opened.dialogue is None
    assert opened.said == [f"proposing from experience alone: {address}: Connection refused"]


def test_chat_insists(tmp_path: Path) -> None:
    address = free_address()
    opened = Opened(tmp_path, "chat", endpoint(address))
    assert type(opened.dialogue).__name__ == "LiveDialogue"
    assert opened.said == [f"asking m1 at {address}"]


@pytest.mark.parametrize("proposer", ["experience", "sketch"])
def test_others_talk_with_nobody_and_need_no_price(tmp_path: Path, proposer: str) -> None:
    opened = Opened(tmp_path, proposer, endpoint("127.0.0.1:1"), Limits(max_usd=1.0))
    assert (opened.dialogue, opened.said) == (None, [])


def test_replay_answers_from_its_record_without_an_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    Exchanges(path).answered(Request("t", "propose", "1", "", "", {}), Reply("{}"))
    opened = Opened(tmp_path, "replay", Endpoint(), exchanges=path)
    assert isinstance(opened.dialogue, ReplayDialogue)
    assert opened.said == [f"answering from {path}; no model is asked"]


@pytest.mark.parametrize(
    ("proposer", "set_up", "limits", "exchanges", "message"),
    [
        ("replay", Endpoint(), Limits(), None, "--proposer replay: give the record"),
        ("replay", Endpoint(), Limits(), "nothing.jsonl", "no such file"),
        ("replay", Endpoint(), Limits(), "garbled.jsonl", "garbled.jsonl:1: not an exchange"),
        ("auto", Endpoint(), Limits(), "garbled.jsonl", "--exchanges is for --proposer replay"),
        (
            "chat",
            Endpoint(),
            Limits(),
            None,
            "set OPENAI_BASE_URL or OPENAI_API_KEY and KOPE_MODEL",
        ),
        ("chat", Endpoint("http://a/v1"), Limits(), None, "no endpoint is set; set KOPE_MODEL, or"),
        ("chat", Endpoint("http://a/v1", "m"), Limits(max_usd=1.0), None, "price of the model"),
        ("auto", Endpoint("http://a/v1", "m"), Limits(max_usd=1.0), None, "price of the model"),
        (
            "chat",
            Endpoint("http://a/v1", "m", price=Price(2.0, 8.0)),
            Limits(max_tokens=-1),
            None,
            "--max-tokens -1: expected",
        ),
    ],
)
def test_wrong_combinations_are_refused_before_anything_is_written(
    tmp_path: Path,
    proposer: str,
    set_up: Endpoint,
    limits: Limits,
    exchanges: str | None,
    message: str,
) -> None:
    (tmp_path / "garbled.jsonl").write_text("hello\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        Opened(tmp_path, proposer, set_up, limits, tmp_path / exchanges if exchanges else None)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["garbled.jsonl"]
