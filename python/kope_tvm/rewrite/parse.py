# SPDX-License-Identifier: Apache-2.0
"""A model's TVMScript as a module, or what is wrong with it."""

from __future__ import annotations

import ast
import re
from threading import Lock

import tvm
from tvm.script import from_source

from kope_tvm.outcome import Verdict, refuse
from kope_tvm.rewrite.allow_list import first_offence
from kope_tvm.rewrite.constructs import NAMESPACE
from kope_tvm.rewrite.contract import GATE, first_breach
from kope_tvm.rewrite.namespace import restricted
from kope_tvm.rewrite.spelling import modernised
from kope_tvm.rewrite.text import Refusal, tree_of

_PARSING = Lock()
"""TVM's parser swaps a method of GlobalVar while it reads."""


def rewritten(script: str, original: tvm.IRModule) -> tvm.IRModule | Verdict:
    """The module of a script that keeps the contract of `original`'s `main`.

    The script is checked against an allow-list and never run; what TVM's parser is given is text
    made anew from the checked tree. Attributes are the original's. Refusals carry `E_SCRIPT`,
    `E_SIGNATURE` or `E_INPUT_WRITTEN`.
    """
    try:
        tree = modernised(tree_of(script))
    except Refusal as refusal:
        return refuse(GATE, "E_SCRIPT", str(refusal.offence))
    except RecursionError:
        return refuse(GATE, "E_SCRIPT", "line 1: the script is nested too deeply to be read")
    offence = first_offence(tree)
    if offence is not None:
        return refuse(GATE, "E_SCRIPT", str(offence))
    func = _parsed(tree)
    if isinstance(func, Verdict):
        return func
    return first_breach(func, original["main"]) or _module(func, original)


def _module(func: tvm.tirx.PrimFunc, original: tvm.IRModule) -> tvm.IRModule:
    """`func` under the original's name, with the original's attributes and no other."""
    main = original["main"]
    kept = tvm.tirx.PrimFunc(func.params, func.body, func.ret_type, attrs=main.attrs)
    return tvm.IRModule({"main": kept}, attrs=original.attrs)


def _parsed(tree: ast.Module) -> tvm.tirx.PrimFunc | Verdict:
    text = ast.unparse(tree)
    try:
        with _PARSING:
            return from_source(text, extra_vars={NAMESPACE: restricted()})
    except Exception as error:
        return refuse(GATE, "E_SCRIPT", _message(error, text, tree))


def _message(error: Exception, text: str, tree: ast.Module) -> str:
    """TVM's message and the script's own line, without the snippet and the traceback."""
    said = str(error)
    place = re.search(r"-->.*?:(\d+):\d+", said)
    line = _lines(text, tree).get(int(place[1]), 1) if place else 1
    if "\n\nTraceback: " in said:
        said = said.split("\n\nTraceback: ", 1)[1]
    first = next((each for each in said.splitlines() if each.strip()), type(error).__name__)
    cut = re.sub(r"^(error: )?(Check failed: .*?\) is false: |Check failed: .*\) : )?", "", first)
    return f"line {line}: {cut[:240]}"


def _lines(text: str, tree: ast.Module) -> dict[int, int]:
    """The script's line of each line of the text that was made from its tree."""
    found: dict[int, int] = {}
    for made, given in zip(ast.walk(ast.parse(text)), ast.walk(tree), strict=False):
        if isinstance(made, ast.stmt) and isinstance(given, ast.stmt):
            found.setdefault(made.lineno, given.lineno)
    return found
