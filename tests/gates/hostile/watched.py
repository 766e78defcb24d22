# SPDX-License-Identifier: Apache-2.0
"""Reads scripts (JSON on stdin) through the rewrite lane and tells what each one did (JSON)."""

from __future__ import annotations

import ast
import json
import sys
import time
from pathlib import Path
from typing import Any

import tvm
from tvm.script import from_source, tirx

from kope_tvm.outcome import Verdict
from kope_tvm.rewrite.parse import rewritten

HONEST = (Path(__file__).parent / "honest" / "exp.txt").read_text("utf-8")
SEEN: list[str] = []
READING = [False]
QUIET = frozenset({"sys._getframe", "builtins.id", "gc.get_referents", "object.__getattr__"})
TREE = "<ast>"
"""What TVM's evaluator calls the source of the expressions that it runs."""
TEXT = "<unknown>"
"""What `ast.parse` calls the source of a tree, and looks for to show where an error is."""


def watch(event: str, args: tuple[Any, ...]) -> None:
    """Note whatever Python reports beside parsing and beside running TVM's own expressions."""
    if READING[0] and event not in QUIET and not expected(event, args):
        SEEN.append(f"{event} {args!r}"[:200])


def expected(event: str, args: tuple[Any, ...]) -> bool:
    """Whether an event is the parser's, or tvm-ffi's dressing of a C++ error as a traceback."""
    if event == "compile":
        return isinstance(args[0], ast.AST) or args[1] == TEXT or args[0] == b"_getframe()"
    if event == "exec":
        return args[0].co_filename == TREE or "tvm::" in args[0].co_name
    if event == "code.__new__":
        return "tvm::" in str(args[2])
    return event == "open" and args[:2] == (TEXT, "rb")


def read(script: str, original: tvm.IRModule) -> dict[str, Any]:
    """The verdict, the processor's seconds, and what was seen."""
    SEEN.clear()
    start = time.process_time()
    READING[0] = True
    try:
        found = rewritten(script, original)
    except BaseException as error:
        found = Verdict("raised", accepted=False, code="RAISED", reason=repr(error)[:200])
    finally:
        READING[0] = False
    refused = isinstance(found, Verdict)
    return {
        "code": found.code if refused else "",
        "reason": found.reason if refused else "",
        "secs": time.process_time() - start,
        "seen": list(SEEN),
    }


def main() -> None:
    scripts = json.load(sys.stdin)
    original = tvm.IRModule({"main": from_source(HONEST, extra_vars={"T": tirx})})
    rewritten(HONEST, original)  # what is imported on first use is imported now
    rewritten("x = 1", original)
    sys.addaudithook(watch)
    modules = set(sys.modules)
    answers = [read(script, original) for script in scripts]
    imported = sorted(set(sys.modules) - modules)
    json.dump({"answers": answers, "imported": imported}, sys.stdout)


if __name__ == "__main__":
    main()
