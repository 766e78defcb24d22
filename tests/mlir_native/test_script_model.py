# SPDX-License-Identifier: Apache-2.0
"""A model asked for transform scripts: over the wire, mended, on record, and answered from it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlir")

from click.testing import CliRunner
from misbehaving_server import Handler, MisbehavingServer, completion, never_answers, says
from small_matmul import FUSED_INTO_THE_REDUCTION, MATMUL

from kope_tvm.chat.exchanges import EXCHANGES, Exchange, read_exchanges
from kope_tvm.chat.replayed import ReplayDialogue
from kope_tvm.cli import main
from kope_tvm.debugger import mendable
from kope_tvm.machine import load_target
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.store import Store
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.script_asking import Asked
from kope_tvm.mlir.script_briefing import LIMIT_TOKENS, ScriptBriefing
from kope_tvm.mlir.script_proposal import ScriptProposal
from kope_tvm.mlir.script_proposers import ScriptTrial
from kope_tvm.mlir.script_reply import read_scripts
from kope_tvm.outcome import Measurement
from kope_tvm.proposal import Origin

RECORD = Path(__file__).parent / "matmul_exchanges.jsonl"
"""What the first test's server said, as a run put it on record."""
RECIPE = {"outer": [[4, 32]], "inner": [[], [0, 0, 1]], "fuse_elementwise": False}
WRONG = {"script": FUSED_INTO_THE_REDUCTION}
MENDED = {"script": FUSED_INTO_THE_REDUCTION.replace("[0, 0, 4]", "[8, 0, 0]")}
PRINTS = {
    "script": FUSED_INTO_THE_REDUCTION.replace(
        "transform.yield", "transform.print %root : !transform.any_op\n    transform.yield"
    )
}
KEY = "sk-secret-of-a-test"


def answers(handler: Handler, body: dict[str, Any]) -> None:
    """Something right, wrong and unreadable first, then what is on no list; and mends."""
    system, asked = (message["content"] for message in body["messages"])
    if "Mend it" in system:
        told = [] if "transform.print" in asked else [MENDED]
    elif "E_NUMERICS" in asked:
        told = [PRINTS]
    else:
        told = [{"recipe": RECIPE}, WRONG, {"recipe": 3}]
    says(completion(json.dumps({"proposals": told})))(handler, body)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MisbehavingServer]:
    with MisbehavingServer(answers) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("KOPE_MODEL", "scripted")
        monkeypatch.setenv("KOPE_DEADLINE_S", "20")
        monkeypatch.setenv("KOPE_HOME", str(tmp_path / "home"))
        yield server


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Function:
    path = tmp_path_factory.mktemp("mlir") / "matmul.mlir"
    path.write_text(MATMUL)
    return Function.of(path, load_target("host"))


def scripted(folder: Path, *options: object, trials: int = 7) -> dict[str, Any]:
    """What `kope mlir script` says as JSON."""
    (folder / "matmul.mlir").write_text(MATMUL)
    words = ["mlir", "script", folder / "matmul.mlir", "--trials", trials, "--json", *options]
    words += ["-o", folder / "script.mlir", "--memory", folder / "memory.sqlite"]
    done = CliRunner().invoke(main, [str(each) for each in words])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def by_chat(folder: Path) -> list[Experience]:
    """The model's experiences, oldest first."""
    store = Store.open(str(folder / "memory.sqlite"))
    try:
        found = [one for one in store.experiences() if one.proposer == "chat"]
        return sorted(found, key=lambda one: one.at)
    finally:
        store.close()


def outcomes(exchange: Exchange) -> list[tuple[str, str]]:
    return [(one.stage, one.code) for one in exchange.outcomes]


def check_experiences(folder: Path) -> None:
    """One right at once, one wrong and mended, one refused by name."""
    right, wrong, mended, refused = by_chat(folder)
    assert json.loads(right.proposal)["recipe"] == RECIPE
    assert (right.code, right.accepted, right.tokens) == ("", True, 60)
    assert right.run_secs
    assert (wrong.code, wrong.run_secs, wrong.tokens) == ("E_NUMERICS", (), 60)
    assert (mended.repairs, mended.repair_turn, mended.tokens) == (wrong.state, 1, 120)
    assert mended.run_secs
    assert (refused.code, refused.accepted) == ("E_SCRIPT", False)
    assert refused.reason == "transform.print is not on the list of transform ops"


def test_a_model_is_asked_proved_mended_and_put_on_record(
    endpoint: MisbehavingServer, tmp_path: Path
) -> None:
    told = scripted(tmp_path, "--proposer", "chat")
    check_experiences(tmp_path)
    first, second, repair = sorted(read_exchanges(tmp_path / EXCHANGES), key=lambda one: one.key)
    (_, read), *measured = sorted(outcomes(first), key=lambda one: one[0] != "reply")
    assert read == "E_REPLY"
    assert measured == [("faster", ""), ("built", "E_NUMERICS")]
    assert repair.request.purpose == "repair"
    assert "E_NUMERICS" in repair.request.prompt
    assert [code for _, code in outcomes(repair)] == [""]
    assert outcomes(second) == [("parsed", "E_SCRIPT")]
    assert told["spent"] == {
        "calls": 3, "prompt_tokens": 300, "completion_tokens": 60, "usd": 0.0, "tokens": 360,
    }  # fmt: skip
    assert told["trials"] == 7
    assert KEY not in (tmp_path / EXCHANGES).read_text()


def test_a_record_says_the_same_again(tmp_path: Path) -> None:
    told = scripted(tmp_path, "--proposer", "replay", "--exchanges", RECORD)
    check_experiences(tmp_path)
    assert (told["spent"]["calls"], told["spent"]["tokens"]) == (3, 360)
    assert not (tmp_path / EXCHANGES).exists()


def test_a_silent_model_costs_its_patience_alone(
    endpoint: MisbehavingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOPE_DEADLINE_S", "1")
    endpoint.behave(never_answers)
    told = scripted(tmp_path, "--proposer", "chat", trials=2)
    assert told["trials"] == 2
    assert told["by"] in ("rules", "search")
    assert any("going on without it" in notice for notice in told["notices"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--proposer", "replay"], "give the record to answer from with --exchanges"),
        (["--proposer", "nobody"], "known: auto, experience, chat, replay"),
        (["--proposer", "chat"], "no endpoint is set"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_runs(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("KOPE_HOME", str(tmp_path))
    words = ["mlir", "script", str(tmp_path / "x.mlir"), "-o", str(tmp_path / "y.mlir"), *options]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


def trial(number: int, code: str = "", proposal: ScriptProposal | None = None) -> ScriptTrial:
    secs = () if code else (1e-3 * (number + 1),)
    measured = Measurement(secs, code=code, error=f"{code} at {number}" if code else "")
    script = ScriptProposal(script=f"{number} " * 60, origin=Origin("search"))
    return ScriptTrial(f"s{number}", proposal or script, measured)


def test_a_brief_keeps_to_its_tokens_and_tells_of_what_failed(function: Function) -> None:
    trials = [trial(number, "E_TRANSFORM" if number % 2 else "") for number in range(40)]
    brief = ScriptBriefing(function).proposal(trials, 2, LIMIT_TOKENS)
    assert brief is not None
    assert brief.tokens_bound <= LIMIT_TOKENS
    assert brief.dropped_tokens["tried"] > 0
    assert "linalg.matmul" in brief.prompt
    assert "E_TRANSFORM at 39" in brief.prompt
    assert brief.prompt.index("1 ms") < brief.prompt.index("E_TRANSFORM")


def test_a_function_that_fits_no_call_is_not_asked_about(function: Function) -> None:
    long = replace(function, text=function.text + "// a line of words that mean nothing\n" * 400)
    asked = Asked(long, ReplayDialogue(RECORD))
    assert asked.propose((), 2) == []
    assert asked.propose((), 2) == []
    (notice,) = asked.notices
    assert notice == "the model is not asked: the function's text is more than a call's 2500 tokens"


def test_a_failure_that_comes_back_is_let_be() -> None:
    first = trial(1, "E_NUMERICS", ScriptProposal(script="a", origin=Origin("chat")))
    ((_, repair),) = mendable([first], "chat")
    again = ScriptProposal(script="b", origin=Origin("chat", repair=repair))
    assert list(mendable([first, trial(2, "E_NUMERICS", again)], "chat")) == []
    assert [repair.turn for _, repair in mendable([first, trial(2, "E_CRASH", again)], "chat")] == [
        2
    ]


def test_what_cannot_be_read_of_a_reply_is_named() -> None:
    pieces = [{"recipe": RECIPE, "tile": {"rows": 64, "columns": 64}}, WRONG, {"recipe": 3}, "no"]
    found = read_scripts(json.dumps({"proposals": pieces}), Origin("chat", tokens=121))
    one, other = found.proposals
    assert (one.tile, one.origin.tokens, other.origin.tokens) == (None, 61, 60)
    assert other.script == FUSED_INTO_THE_REDUCTION
    assert [str(each.verdict) for each in found.refused] == [
        "E_REPLY proposal 3: not a recipe: '3'",
        "E_REPLY proposal 4: expected a recipe or a script: '\"no\"'",
    ]
    (refused,) = read_scripts("sorry", Origin("chat")).refused
    assert (refused.verdict.code, refused.piece) == ("E_REPLY", "sorry")
