# SPDX-License-Identifier: Apache-2.0
"""What is written of a memory is whole, reads back, and holds strangers' words as words only."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from click.testing import CliRunner, Result

import graph_story as story
from kope_tvm.cli import main
from kope_tvm.graph_view.graphml import portable, write_graphml
from kope_tvm.memory import ExperienceGraph, Memory, experience_key
from kope_tvm.memory.portable import read_jsonl

HOST = story.GUESS.machine_key


@pytest.fixture
def memory(tmp_path: Path) -> str:
    with Memory.open(tmp_path / "m.sqlite") as opened:
        opened.record_many(story.STORY)
    return str(tmp_path / "m.sqlite")


def kope_memory(*args: object) -> Result:
    return CliRunner().invoke(main, ["memory", *map(str, args)])


def exported(memory: str, path: Path, *args: object) -> Path:
    done = kope_memory("export", "-o", path, "--memory", memory, *args)
    assert done.exit_code == 0, done.output
    return path


def test_show_lists_what_is_on_record(memory: str) -> None:
    lines = kope_memory("show", "--memory", memory).stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["f00d0002cafe", "gelu", "elementwise", "1", "0", HOST],
        ["beef0001cafe", "softmax", "softmax", "1", "0", story.BOARD],
        ["beef0001cafe", "softmax", "softmax", "7", "1", HOST],
    ]


@pytest.mark.parametrize("name", ["softmax", "beef0001", "beef0001cafe"])
def test_show_draws_a_task_by_its_name_or_the_start_of_its_key(name: str, memory: str) -> None:
    drawn = kope_memory("show", name, "--memory", memory)
    assert drawn.exit_code == 0
    assert drawn.stdout.count("untuned") == 2
    assert "`-- vector tile = 2 x VLEN  10x  4 ms  carried over" in drawn.stdout
    assert "split(j, [4, 8])  2x, 16x in all  500 us" in drawn.stdout
    assert drawn.stdout.isascii()


def test_show_prints_one_json_object_with_what_is_hidden(memory: str) -> None:
    found = json.loads(
        kope_memory("show", "softmax", "--json", "--limit", 3, "--memory", memory).stdout
    )
    board, host = found["trees"]
    assert [one["experience"]["state"] for one in host["branches"]] == ["guess", "fused", "split"]
    assert host["num_hidden"] == 4
    assert host["best"]["speedup"] == pytest.approx(16.0)
    assert board["hidden"] == []


def test_show_of_an_empty_memory_says_so(tmp_path: Path) -> None:
    nothing = kope_memory("show", "--memory", tmp_path / "new.sqlite")
    assert nothing.output == "nothing is remembered yet; `kope tune` records what it measures\n"


def test_graphml_reads_back_with_the_same_nodes_edges_and_attributes(
    memory: str, tmp_path: Path
) -> None:
    read = nx.read_graphml(exported(memory, tmp_path / "g.graphml"), force_multigraph=True)
    with Memory.open(memory) as opened:
        graph = ExperienceGraph.from_store(opened.store)
    wrote = portable(graph)
    assert dict(read.nodes(data=True)) == dict(wrote.nodes(data=True))
    assert edges(read) == edges(wrote)
    kinds = [data["kind"] for _, _, data in read.edges(data=True)]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    assert counts == {"decision": 9, "repairs": 1, "transfers": 1, "untuned": 2, "ran": 3}
    split = edges(read)[experience_key(story.SPLIT)]
    assert split[:2] == ("state:beef0001cafe:fused", "state:beef0001cafe:split")
    assert split[2]["speedup"] == 16.0
    assert split[2]["proposal"] == "script of split"


def edges(graph: Any) -> dict[str, tuple[str, str, dict[str, Any]]]:
    found = graph.edges(keys=True, data=True)
    plain = {key: (start, end, {**data}) for start, end, key, data in found}
    for _, _, data in plain.values():
        data.pop("id", None)
    return plain


def test_graphml_holds_what_xml_cannot(tmp_path: Path) -> None:
    graph = ExperienceGraph()
    graph.add(replace(story.GUESS, change="a\x00\x1bb\r\nc <&> \ufffe \U0001f600"))
    write_graphml(graph, tmp_path / "g.graphml")
    read = nx.read_graphml(tmp_path / "g.graphml", force_multigraph=True)
    (change,) = (data["change"] for *_, data in read.edges(data=True) if "change" in data)
    assert change == "a\ufffd\ufffdb\nc <&> \ufffd \U0001f600"


def test_jsonl_holds_all_or_the_tasks_that_were_named(memory: str, tmp_path: Path) -> None:
    with exported(memory, tmp_path / "all.jsonl").open(encoding="utf-8") as file:
        assert set(read_jsonl(file)) == set(story.STORY)
    path = exported(memory, tmp_path / "some.jsonl", "--task", "gelu")
    with path.open(encoding="utf-8") as file:
        assert list(read_jsonl(file)) == [story.GELU]
    kinds = [next(iter(json.loads(line))) for line in path.read_text("utf-8").splitlines()]
    assert "lesson" not in kinds
    assert kinds.count("task") == 1


def test_export_says_what_it_wrote_and_what_it_left_out(memory: str, tmp_path: Path) -> None:
    path = tmp_path / "g.html"
    done = kope_memory("export", "-o", path, "--limit", 3, "--json", "--memory", memory)
    assert json.loads(done.stdout) == {
        "file": str(path), "format": "html", "tasks": 2, "decisions": 5, "left_out": 4,
    }  # fmt: skip
    assert [one.name for one in tmp_path.glob("*g.html*")] == ["g.html"]


def test_export_refuses_a_wrong_call_and_leaves_the_old_file(memory: str, tmp_path: Path) -> None:
    unnamed = kope_memory("export", "-o", tmp_path / "g.txt", "--memory", memory)
    assert unnamed.exit_code == 2
    assert "ends in .jsonl, .graphml, .html, .htm, or --format" in unnamed.output
    old = tmp_path / "old.html"
    old.write_text("old")
    unknown = kope_memory("export", "-o", old, "--task", "nosuch", "--memory", memory)
    assert unknown.exit_code == 2
    assert "--task nosuch: no task on record" in unknown.output
    assert old.read_text() == "old"
    nowhere = kope_memory("export", "-o", tmp_path / "no" / "g.html", "--memory", memory)
    assert nowhere.exit_code == 1
    assert "give -o a place to write" in nowhere.output


class Tags(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.scripts += [""] if tag == "script" else []

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data


def test_a_page_refers_to_nothing_and_runs_its_own_scripts_only(
    memory: str, tmp_path: Path
) -> None:
    page = exported(memory, tmp_path / "g.html").read_text("utf-8")
    found = Tags(page)
    assert [tag for tag, _ in found.tags].count("script") == 5
    assert not {"img", "link", "iframe", "base", "object"} & {tag for tag, _ in found.tags}
    names = {name for _, attributes in found.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "href")}
    data, *scripts = found.scripts
    (policy,) = (a["content"] for _, a in found.tags if a.get("http-equiv"))
    assert policy is not None
    assert re.findall(r"sha256-([^']+)", policy) == [
        b64encode(sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert "default-src 'none'" in policy
    assert story.HOSTILE not in page
    changes = [one["change"] for tree in json.loads(data)["trees"] for one in tree["branches"]]
    assert story.DROPPED.change in changes


def test_the_library_is_the_one_that_is_named_with_its_licence(
    project_dir: Path, memory: str, tmp_path: Path
) -> None:
    folder = project_dir / "python" / "kope_tvm" / "graph_view" / "page"
    library = (folder / "cytoscape.min.js").read_bytes()
    notes = (folder / "README.md").read_text("utf-8")
    assert sha256(library).hexdigest() in notes
    (version,) = re.findall(rb'\$h\.version="([^"]+)"', library)
    assert f"[Cytoscape.js](https://js.cytoscape.org) {version.decode()}," in notes
    assert "granted, free of charge" in (folder / "cytoscape.LICENSE").read_text("utf-8")
    page = exported(memory, tmp_path / "g.html").read_text("utf-8")
    assert "The Cytoscape Consortium" in page
