# SPDX-License-Identifier: Apache-2.0
"""What a model said in a stored study is read again as it was, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope_tvm.bench.stem import file_stem
from kope_tvm.bench.suites.study import OPERATORS
from kope_tvm.bench.talk import talk_of
from kope_tvm.chat.exchanges import read_exchanges
from kope_tvm.machine import load_target
from kope_tvm.memory.store import Store
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.outcome import Verdict
from kope_tvm.prompt.loop_tree import loop_tree
from kope_tvm.prompt.reply import read_reply
from kope_tvm.prompt.view import LANES
from kope_tvm.proposal import Origin, lane_of, proposal_from, proposal_text, space_of
from kope_tvm.tuning import tune
from kope_tvm.workbench import Workbench, make_task

STUDY = Path(__file__).parents[1] / "golden" / "study"
RECORDS = {spec: STUDY / f"{file_stem(spec)}.jsonl" for spec in OPERATORS}
_Said = tuple[str, str, str]


def read_again(record: Path) -> list[list[_Said]]:
    """The proposals of each reply, in the order of their calls."""
    return [
        [
            (lane_of(one), space_of(one), proposal_text(one))
            for one in read_reply(each.reply.text, each.request.states, LANES).proposals
        ]
        for each in read_exchanges(record)
    ]


@pytest.mark.parametrize("spec", OPERATORS)
def test_the_proposals_on_record_are_read_again(spec: str) -> None:
    for exchange, said in zip(
        read_exchanges(RECORDS[spec]), read_again(RECORDS[spec]), strict=True
    ):
        on_record = {(one.lane, one.space, one.text) for one in exchange.outcomes if one.lane}
        assert set() < on_record <= set(said)


@pytest.mark.parametrize("spec", OPERATORS)
def test_every_reply_of_the_study_was_legal_and_within_its_tokens(spec: str) -> None:
    talk = talk_of(read_exchanges(RECORDS[spec]))
    assert (talk.failed_calls, talk.legal_replies) == (0, talk.replies)
    assert talk.mended == talk.repaired
    assert talk.max_prompt_tokens <= 2500


@pytest.mark.parametrize("spec", OPERATORS)
def test_every_legal_program_of_the_study_can_be_shown_as_a_tree(spec: str) -> None:
    machine = load_target("x86-avx512")
    ((name, mod, _),) = extract_tasks(load_model(spec), machine)
    bench = Workbench(make_task(name, mod, machine))
    shown = 0
    for lane, space, text in {said for reply in read_again(RECORDS[spec]) for said in reply}:
        candidate = bench.apply(proposal_from(lane, space, text, Origin("chat")))
        if not isinstance(candidate, Verdict):
            shown += bool(loop_tree(candidate.sch.mod).nests)
    assert shown >= 2


def test_a_run_by_replay_says_what_the_study_said(tmp_path: Path) -> None:
    record = RECORDS["op:softmax:m=512,n=1024"]
    memory = str(tmp_path / "memory.sqlite")
    tune(
        "op:softmax:m=512,n=1024", "host", tmp_path / "work", 16,
        proposer="replay", exchanges=record, memory=memory, seed=1,
    )  # fmt: skip
    store = Store.open(memory)
    journal = sorted(store.experiences(), key=lambda one: (one.round_no, one.at))
    store.close()
    said = [(one.lane, one.space, one.proposal) for one in journal if one.proposer == "replay"]
    stored = [one for reply in read_again(record) for one in reply]
    assert len(said) >= 3
    assert said == stored[: len(said)]
