# SPDX-License-Identifier: Apache-2.0
"""Exchanges survive kills and full disks, give no secret away, and read back as they were."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kope_tvm.chat.dialogue import Outcome, Reply, Request, Usage
from kope_tvm.chat.exchanges import Exchange, Exchanges, read_exchanges
from kope_tvm.chat.redaction import without_secrets
from kope_tvm.errors import StorageError, UsageError

KEY = "gsk_kJ9dPq2LmXw7"
REQUEST = Request(
    "matmul-512",
    "propose",
    "1",
    "You schedule.",
    "Improve s1 — 3.1 µs.",
    {"type": "object", "properties": {"stop": {"enum": [True, False]}}},
    {"s1": '{"lane": "decisions", "space": "sketch", "text": "[]"}'},
)
REPLY = Reply('{"proposals": [], "stop": true}', Usage(900, 12), 1.25, "json_schema")
OUTCOME = Outcome("plan", "plan", "[]", "00ff", "legal", "E_BUILD", "no", 0.0, 1e-3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work" / "exchanges.jsonl"


def test_nothing_is_written_before_the_first_call(path: Path) -> None:
    Exchanges(path)
    assert not path.parent.exists()


def test_a_call_and_its_outcomes_read_back_as_they_were(path: Path) -> None:
    record = Exchanges(path)
    record.answered(REQUEST, REPLY)
    record.noted(REQUEST, [OUTCOME])
    assert read_exchanges(path) == (Exchange(REQUEST, REPLY, (OUTCOME,)),)


def test_the_same_events_make_the_same_bytes_one_line_each(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        record = Exchanges(tmp_path / name)
        record.answered(REQUEST, REPLY)
        record.noted(REQUEST, [OUTCOME])
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]
    lines = texts[0].decode("ascii").splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["answered", "noted"]
    assert all(line == json.dumps(json.loads(line), sort_keys=True) for line in lines)


def test_a_later_outcome_stands_in_the_place_of_the_former(path: Path) -> None:
    record = Exchanges(path)
    other = Outcome("plan", "plan", "[1]", stage="reply", code="E_REPLY")
    built = Outcome("plan", "plan", "[]", "00ff", "faster", run_secs=5e-4, incumbent_secs=1e-3)
    record.answered(REQUEST, REPLY)
    record.noted(REQUEST, [OUTCOME, other])
    record.noted(REQUEST, [built])
    assert read_exchanges(path)[0].outcomes == (built, other)


def test_outcomes_belong_to_the_latest_call_of_their_key(path: Path) -> None:
    record = Exchanges(path)
    record.answered(REQUEST, REPLY)
    record.answered(REQUEST, Reply(error="429 after 3 tries"))
    record.noted(REQUEST, [OUTCOME])
    assert [len(each.outcomes) for each in read_exchanges(path)] == [0, 1]


def test_outcomes_of_a_call_that_the_disk_refused_are_passed_over(path: Path) -> None:
    Exchanges(path).noted(REQUEST, [OUTCOME])
    assert read_exchanges(path) == ()


@pytest.mark.parametrize("kept", [1, 40, 400])
def test_a_torn_last_line_is_left_out_and_cut_by_the_next_writer(path: Path, kept: int) -> None:
    record = Exchanges(path)
    record.answered(REQUEST, REPLY)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:kept])
    assert len(read_exchanges(path)) == 1
    Exchanges(path).answered(REQUEST, REPLY)
    assert path.read_bytes() == whole + whole


def test_a_whole_last_line_without_its_end_is_kept(path: Path) -> None:
    Exchanges(path).answered(REQUEST, REPLY)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert len(read_exchanges(path)) == 1
    Exchanges(path).answered(REQUEST, REPLY)
    assert path.read_bytes() == whole + whole


def test_threads_write_whole_lines(path: Path) -> None:
    record = Exchanges(path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: record.answered(REQUEST, REPLY), range(40)))
    assert read_exchanges(path) == (Exchange(REQUEST, REPLY),) * 40


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error_of_storage() -> None:
    with pytest.raises(StorageError, match=r"/dev/full: a call could not be put on record: .*"):
        Exchanges(Path("/dev/full")).answered(REQUEST, REPLY)


def test_a_folder_that_cannot_be_made_is_an_error_of_storage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="exchanges"):
        Exchanges(tmp_path / "file" / "exchanges.jsonl").answered(REQUEST, REPLY)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not an exchange on record"),
        (b"[]", "not an exchange"),
        (b"{}", "no 'event'"),
        (b'{"event": "asked"}', "event 'asked'; expected 'answered' or 'noted'"),
        (b'{"event": "answered"}', "no 'request'"),
        (b"\xff\xfe", "not an exchange"),
        (b"[" * 100_000, "not an exchange"),
        (b'{"event": "noted", "request": {"task_key": 1}, "outcomes": []}', "no 'purpose'"),
    ],
)
def test_garbage_is_refused_with_its_line(path: Path, line: bytes, message: str) -> None:
    Exchanges(path).answered(REQUEST, REPLY)
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(UsageError, match=re.escape(f"{path}:2: ")) as caught:
        read_exchanges(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("part", "field", "value", "message"),
    [
        ("request", "prompt", None, "prompt is a NoneType; expected str"),
        ("request", "states", {"s1": 1}, "states['s1'] is a int; expected str"),
        ("request", "max_output_tokens", True, "max_output_tokens is a bool; expected int"),
        ("request", "host", "evil", "host"),
        ("reply", "text", 5, "text is a int; expected str"),
        ("reply", "usage", {"prompt_tokens": "9"}, "prompt_tokens is a str; expected int"),
    ],
)
def test_a_wrong_field_is_named(
    path: Path, part: str, field: str, value: object, message: str
) -> None:
    Exchanges(path).answered(REQUEST, REPLY)
    event = json.loads(path.read_bytes())
    event[part][field] = value
    path.write_text(json.dumps(event) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=":1: ") as caught:
        read_exchanges(path)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing: no exchanges can be read: no such file"):
        read_exchanges(tmp_path / "nothing")


def test_no_secret_reaches_the_record(path: Path) -> None:
    told = Request("t", "propose", "1", f"key {KEY}", "see http://me:pw9@host/v1", {KEY: KEY})
    said = Reply(
        'header {"Authorization": "Basic bWU6cHc5"} and sk-proj-abcdef123456',
        error=f"401 for Bearer {KEY}",
    )
    record = Exchanges(path, "MY_KEY", {"MY_KEY": KEY})
    record.answered(told, said)
    record.noted(told, [Outcome("plan", "", KEY, reason=f"Authorization: {KEY}")])
    text = path.read_text(encoding="utf-8")
    assert not any(secret in text for secret in (KEY, "pw9", "bWU6cHc5", "abcdef123456"))
    assert len(read_exchanges(path)) == 1


def test_the_key_is_read_when_it_is_needed_and_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Exchanges(path, "MY_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    assert os.environ["MY_KEY"] == KEY
    record.answered(REQUEST, Reply(text=KEY))
    assert read_exchanges(path)[0].reply.text == "***"
    assert KEY not in repr(vars(record).keys())


@pytest.mark.parametrize(
    "text",
    [
        "split the task-graph-of-the-loop, risk-free and desk-mounted-lamps",
        '{"do": "split", "block": "sk", "factors": [4, -1]}',
        "the bearer of news; T.Buffer((512,), 'float32')",
        "none",
    ],
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert without_secrets(text, "none") == text
