# SPDX-License-Identifier: Apache-2.0
"""One measuring pool for all tests of a file, and dialogues with a server of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from measure_pool import LOG, QUICK, SPEC
from talk import KEY, Open

from kope_tvm.chat.budget import Budget
from kope_tvm.chat.exchanges import Exchanges
from kope_tvm.chat.live import LiveDialogue
from kope_tvm.config import Endpoint
from kope_tvm.measure import Pool


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(SPEC, QUICK, LOG) as shared:
        yield shared


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens dialogues that are closed at the end."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    dialogues: list[LiveDialogue] = []

    def open_at(
        url: str, deadline_secs: float = 5.0, budget: Budget | None = None, key: str = KEY
    ) -> LiveDialogue:
        endpoint = Endpoint(base_url=url, model="m", deadline_secs=deadline_secs)
        exchanges = Exchanges(tmp_path / "exchanges.jsonl", environment={"OPENAI_API_KEY": key})
        dialogue = LiveDialogue(endpoint, key, budget or Budget(), exchanges, tmp_path / "home")
        dialogues.append(dialogue)
        return dialogue

    yield open_at
    for dialogue in dialogues:
        dialogue.close()
