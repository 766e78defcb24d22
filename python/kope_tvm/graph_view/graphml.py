# SPDX-License-Identifier: Apache-2.0
"""The graph as GraphML, which Gephi, yEd, Cytoscape and networkx read.

Nodes are tasks, machines and states; edges are decisions, with all that is known of them, and the
repairs and transfers between the states that they led to.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import networkx as nx

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.graph import ExperienceGraph
from kope_tvm.memory.rows import measured_secs

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def write_graphml(graph: ExperienceGraph, path: Path) -> None:
    """Write it; what networkx reads back has the same nodes, edges and attributes."""
    nx.write_graphml(portable(graph), path)


def portable(graph: ExperienceGraph) -> Any:
    """The graph with plain names and plain attributes, as a networkx MultiDiGraph."""
    plain = nx.MultiDiGraph()
    for node, data in graph.nx.nodes(data=True):
        plain.add_node(_name(node), **_node_attributes(node, data))
    for start, end, key, data in graph.nx.edges(keys=True, data=True):
        own = _decision_attributes(data["experience"]) if "experience" in data else {}
        # Edges that have no key of their own need one, as GraphML's are one namespace.
        name = key if own else f"{key}: {_name(start)} {_name(end)}"
        plain.add_edge(_name(start), _name(end), name, kind=data["kind"], **own)
    known = dict(graph.decisions())
    for link in graph.links():
        ends = [_state_name(known[key]) for key in (link.source, link.target)]
        name = f"{link.kind}: {link.source} {link.target}"
        plain.add_edge(*ends, name, kind=link.kind, source_key=link.source, target_key=link.target)
    return plain


def _name(node: tuple[str, ...]) -> str:
    return _xml_text(":".join(node))


def _state_name(experience: Experience) -> str:
    return _name(("state", experience.task_key, experience.state))


def _node_attributes(node: tuple[str, ...], data: dict[str, Any]) -> dict[str, Any]:
    found = {"kind": data["kind"], "key": _xml_text(node[-1])}
    if data["kind"] == "task":
        features = data["features"]
        found |= {"name": _xml_text(data["name"]), "op_class": features.op_class}
        found["features"] = json.dumps(asdict(features), sort_keys=True)
    elif data["kind"] == "state":
        found |= {"task_key": _xml_text(node[1]), "untuned": node[2] == ""}
    return found


def _decision_attributes(experience: Experience) -> dict[str, Any]:
    """Numbers, flags and texts as they are, lists as JSON; features are the task's."""
    found: dict[str, Any] = {}
    for name, value in vars(experience).items():
        if name == "features":
            continue
        if isinstance(value, tuple):
            value = json.dumps(value)
        found[name] = _xml_text(value) if isinstance(value, str) else value
    secs = measured_secs(experience)
    if secs:
        found["secs"] = secs
    if secs and experience.baseline_secs > 0:
        found["speedup"] = experience.baseline_secs / secs
    return found


def _xml_text(text: str) -> str:
    # XML reads a carriage return as a line feed.
    return _NOT_IN_XML.sub(
        "\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n")
    )
