# SPDX-License-Identifier: Apache-2.0
"""A model in the round: asked over the wire, mended, put on record, answered again from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from misbehaving_server import (
    Behaviour,
    Handler,
    MisbehavingServer,
    completion,
    never_answers,
    says,
)

from kope_tvm.chat.exchanges import EXCHANGES, Exchange, read_exchanges
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.store import Store
from kope_tvm.report import TuneReport
from kope_tvm.tuning import tune

SPEC = "op:matmul:m=48,n=64,k=32"
SPLIT = "split matmul i1 [-1,16] -> jo ji"
ORDER = ["reorder matmul i0 jo k ji", "vectorize matmul ji", "parallel matmul i0"]
GOOD = {"lane": "plan", "why": "vectors along j", "steps": [SPLIT, *ORDER]}
ILLEGAL = {"lane": "plan", "why": "odd", "steps": ["split matmul k [4,7] -> ko ki"]}
UNREADABLE = {"lane": "plan", "why": "old name", "steps": ["frobnicate matmul k"]}
MENDED = {"lane": "plan", "why": "factors fit", "steps": ["split matmul k [4,8] -> ko ki"]}
READABLE = {"lane": "plan", "why": "a known name", "steps": ["unroll matmul k"]}


def reply(*proposals: dict[str, Any]) -> Behaviour:
    return says(completion(json.dumps({"proposals": proposals, "stop": False})))


def mends(*proposals: dict[str, Any]) -> Behaviour:
    """Proposes these, and answers every repair with what mends it."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        asks_for_repair = "Mend it" in body["messages"][0]["content"]
        is_unread = "frobnicate" in body["messages"][-1]["content"]
        mended = READABLE if is_unread else MENDED
        (reply(mended) if asks_for_repair else reply(*proposals))(handler, body)

    return answer


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all, that the machine's roof is measured once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[MisbehavingServer]:
    with MisbehavingServer(reply(GOOD)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-a-test")
        monkeypatch.setenv("KOPE_MODEL", "scripted")
        monkeypatch.setenv("KOPE_DEADLINE_S", "20")
        monkeypatch.setenv("KOPE_HOME", str(home))
        yield server


def tuned(folder: Path, trials: int = 16, spec: str = SPEC, **options: Any) -> TuneReport:
    given = {"proposer": "chat", "memory": str(folder / "memory.sqlite"), "seed": 1, **options}
    return tune(spec, "host", folder / "work", trials, **given)


def journal(folder: Path) -> list[Experience]:
    store = Store.open(str(folder / "work" / "experience.sqlite"))
    try:
        return sorted(store.experiences(), key=lambda one: one.at)
    finally:
        store.close()


def said(folder: Path, proposer: str) -> list[tuple[str, str]]:
    return [(one.lane, one.proposal) for one in journal(folder) if one.proposer == proposer]


def exchanges(folder: Path) -> tuple[Exchange, ...]:
    return read_exchanges(folder / "work" / EXCHANGES)


def test_plans_are_measured_mended_and_put_on_record(
    endpoint: MisbehavingServer, tmp_path: Path
) -> None:
    endpoint.behave(mends(GOOD, ILLEGAL, UNREADABLE))
    report = tuned(tmp_path)
    by_chat = [one for one in journal(tmp_path) if one.proposer == "chat"]
    right = [one for one in by_chat if one.run_secs]
    assert {one.lane for one in right} == {"plan"}
    (refused,) = [one for one in by_chat if not one.accepted]
    assert (refused.code, refused.reason) == (
        "E_STEP",
        "step 1 split(loop='k'): factors multiply to 28, the loop extent is 32; "
        "it divides by 1 2 4 8 16 32; one factor may be -1",
    )
    (mended,) = [one for one in right if one.repairs == refused.state]
    assert (mended.repair_turn, json.loads(mended.proposal)[0]["factors"]) == (1, [4, 8])
    stages = {o.stage for one in exchanges(tmp_path) for o in one.outcomes}
    assert {"reply", "parsed"} < stages <= {"reply", "parsed", "legal", "correct", "faster"}
    assert report.spent.calls == len(endpoint.bodies)
    assert "sk-secret" not in (tmp_path / "work" / EXCHANGES).read_text()


def test_what_a_prompt_had_no_room_for_is_on_record(
    endpoint: MisbehavingServer, tmp_path: Path
) -> None:
    """A norm's program and what was tried of it are longer than a product's."""
    endpoint.behave(reply(GOOD))
    tuned(tmp_path, trials=24, spec="op:layernorm:m=16,n=64")
    assert any(one.request.dropped for one in exchanges(tmp_path))


def test_a_stored_run_says_the_same_again(endpoint: MisbehavingServer, tmp_path: Path) -> None:
    endpoint.behave(mends(GOOD, ILLEGAL))
    live, again = tmp_path / "live", tmp_path / "again"
    tuned(live)
    num_calls = len(endpoint.bodies)
    tuned(again, proposer="replay", exchanges=live / "work" / EXCHANGES)
    assert len(endpoint.bodies) == num_calls
    assert said(again, "replay") == said(live, "chat") != []


def test_limits_hold(endpoint: MisbehavingServer, tmp_path: Path) -> None:
    report = tuned(tmp_path, max_calls=1)
    assert (report.spent.calls, len(endpoint.bodies)) == (1, 1)


def test_a_silent_endpoint_costs_one_deadline(
    endpoint: MisbehavingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOPE_DEADLINE_S", "2")
    endpoint.behave(never_answers)
    report = tuned(tmp_path)
    assert report.trials == 16
    assert [line for line in report.notices if "no answer within 2 s" in line]
    assert report.model_secs < 2.5
