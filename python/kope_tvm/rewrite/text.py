# SPDX-License-Identifier: Apache-2.0
"""A script's syntax tree, made within bounds of time and memory, or the reason for none."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from dataclasses import dataclass

MAX_TEXT_BYTES = 64 * 1024
MAX_NODES = 8_000
"""Reading takes 0.2 ms a node; a large honest rewrite has 1 500."""
MAX_DEPTH = 100
MAX_BRACKETS = 60
"""Of brackets open at once; CPython's own limit is 200."""

_CONTROL = re.compile(r"[^\n\t\x20-\x7e\x80-\U0010ffff]|[\x80-\x9f\u2028\u2029\ufeff\u202a-\u202e]")
_LITERAL = re.compile(
    r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*", re.DOTALL
)
_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"@|class \w+.*:$|def \w+\(|(?:import|from) (?:tvm|__future__)|[A-Za-z_]\w* = ")


@dataclass(frozen=True)
class Offence:
    """Where a script leaves what is allowed, what stands there, and why it is refused."""

    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what} {self.why}".replace("\n", " ")


class Refusal(Exception):  # noqa: N818  (an answer on its way up, not an error)
    """Carries the first offence out of a tree."""

    def __init__(self, line: int, what: str, why: str) -> None:
        super().__init__(line, what, why)
        self.offence = Offence(line, what, why)


def tree_of(script: str) -> ast.Module:
    """The tree of a reply's code, fences and prose around it left out; raises Refusal."""
    text = script.replace("\r\n", "\n")
    _check_text(text)
    code = _unfenced(text)
    try:
        return bounded_tree(code)
    except Refusal:
        without_prose = _without_prose(code)
        if without_prose == code or "def " not in without_prose:
            raise
        return bounded_tree(without_prose)


def bounded_tree(text: str) -> ast.Module:
    """Parse `text`; raises Refusal where it is no Python, or too large or too deep."""
    _check_text(text)
    foreign = re.search(r"[^\x00-\x7f]", _LITERAL.sub(_blank, text))
    if foreign:
        # Python folds such letters: a full-width `open` is `open`.
        line = text.count("\n", 0, foreign.start()) + 1
        raise Refusal(line, f"the letter {foreign[0]!a}", "stands in code, which is ASCII")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise Refusal(error.lineno or 1, "not Python:", str(error.msg)[:120]) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refusal(1, "the script", "is nested too deeply to be read") from error
    _check_size(tree)
    return tree


def _blank(literal: re.Match[str]) -> str:
    """As many characters and lines, of nothing."""
    return re.sub(r"[^\n]", " ", literal[0])


def _check_text(text: str) -> None:
    num_bytes = len(text.encode("utf-8", "surrogatepass"))
    if num_bytes > MAX_TEXT_BYTES:
        raise Refusal(1, "the script", f"has {num_bytes} bytes; at most {MAX_TEXT_BYTES} are read")
    found = _CONTROL.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise Refusal(line, f"the character {found[0]!a}", "does not belong in a script")
    open_now = 0
    for place, character in enumerate(_LITERAL.sub("", text)):
        open_now += (character in "([{") - (character in ")]}")
        if open_now > MAX_BRACKETS:
            why = f"open at once, at character {place}; at most {MAX_BRACKETS} are read"
            raise Refusal(1, f"{open_now} brackets", why)


def _check_size(tree: ast.Module) -> None:
    """Count nodes and levels without recursion."""
    level: list[ast.AST] = [tree]
    num_nodes = depth = 0
    while level:
        num_nodes, depth = num_nodes + len(level), depth + 1
        if num_nodes > MAX_NODES:
            raise Refusal(1, "the script", f"has more than {MAX_NODES} nodes; write loops instead")
        if depth > MAX_DEPTH:
            line = next((node.lineno for node in level if hasattr(node, "lineno")), 1)
            raise Refusal(line, "the script", f"is nested deeper than {MAX_DEPTH} levels")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _unfenced(text: str) -> str:
    """The fenced block that holds a function; lines before it blank, so that numbers stay true."""
    for found in _FENCED.finditer(text):
        if "def " in found[1]:
            return "\n" * text.count("\n", 0, found.start(1)) + textwrap.dedent(found[1])
    return textwrap.dedent(text)


def _without_prose(text: str) -> str:
    """Blank what stands before the first line of code and after the last indented one."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if _CODE.match(line)), len(lines))
    last = max((i for i, line in enumerate(lines) if line[:1] in (" ", "\t", ")")), default=-1)
    kept = [line if first <= i <= last else "" for i, line in enumerate(lines)]
    return "\n".join(kept)
