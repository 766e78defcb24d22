# SPDX-License-Identifier: Apache-2.0
"""The graph as one HTML file that needs nothing else: Cytoscape.js, the trees and their details.

What strangers wrote is JSON in a block that is no script, without a `<`, and reaches the page as
text; the page's policy runs the scripts named here by hash, and asks the network for nothing.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files

from kope_tvm.graph_view.book import write_book
from kope_tvm.graph_view.tree import DecisionTree

_SCRIPTS = {
    "library": "cytoscape.min.js",
    "graph": "graph.js",
    "details": "details.js",
    "main": "main.js",
}
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def html_page(trees: Iterable[DecisionTree]) -> str:
    """The page of some trees."""
    scripts = {slot: _asset(name) for slot, name in _SCRIPTS.items()}
    memory = json.dumps(asdict(write_book(trees)), allow_nan=False, separators=(",", ":"))
    parts = {
        "style": _asset("page.css"),
        "memory": _inert(memory),
        "hashes": " ".join(map(_hash, scripts.values())),
        **scripts,
    }
    return _SLOT.sub(lambda match: parts[match[1]], _asset("page.html"))


def _inert(text: str) -> str:
    """JSON that cannot end the element that it is in."""
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _hash(script: str) -> str:
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("kope_tvm.graph_view").joinpath("page", name).read_text(encoding="utf-8")
