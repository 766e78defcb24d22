# SPDX-License-Identifier: Apache-2.0
"""An IRModule from a file: TVMScript text (`.py`) or TVM's JSON (`.json`).

The file is never run. TVM's parser does evaluate annotations and decorators, `__import__("os")`
in a shape among them, so what it may evaluate is checked on the syntax tree first.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import tvm
from tvm import IRModule
from tvm.script import from_source, ir, relax, tirx

from kope_tvm.errors import ModelError

_DIALECTS: dict[str, ModuleType] = {"ir": ir, "relax": relax, "tirx": tirx}
_DEFAULT_NAMES = {"I": "ir", "R": "relax", "T": "tirx"}
_BUILTINS = frozenset({"range", "int", "float", "bool", "len", "min", "max", "abs", "str", "tuple"})


def read_script(path: Path) -> IRModule:
    """Parse a TVMScript file: imports of `tvm.script`, then one IRModule or PrimFunc."""
    text = _text(path)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ModelError(f"{path}:{error.lineno}: not Python: {error.msg}") from error
    dialects = dict(_DEFAULT_NAMES)
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            dialects |= _imported(statement, path)
    if not any(isinstance(each, ast.ClassDef | ast.FunctionDef) for each in tree.body):
        raise ModelError(f"{path}: defines nothing; expected an @I.ir_module or a @T.prim_func")
    _refuse_escapes(tree, dialects, path)
    return _parse(_without_imports(text, tree), dialects, path)


def read_json(path: Path) -> IRModule:
    """Load what `tvm.ir.save_json` wrote."""
    try:
        return _as_module(tvm.ir.load_json(_text(path)), path)
    except (ValueError, RuntimeError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path}: not an IRModule in TVM's JSON: {_first_line(error)}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error


def _imported(statement: ast.Import | ast.ImportFrom, path: Path) -> dict[str, str]:
    """The dialects' names that one import line binds."""
    where = f"{path}:{statement.lineno}"
    if isinstance(statement, ast.ImportFrom):
        if statement.module == "__future__":
            return {}
        if statement.module == "tvm.script" and all(a.name in _DIALECTS for a in statement.names):
            return {alias.asname or alias.name: alias.name for alias in statement.names}
    elif all(alias.name == "tvm" and not alias.asname for alias in statement.names):
        return {}
    raise ModelError(
        f"{where}: {ast.unparse(statement)!r} in a TVMScript model; "
        "only `from tvm.script import ir as I, relax as R, tirx as T` is read"
    )


def _without_imports(text: str, tree: ast.Module) -> str:
    """Blank the lines of imports, so that later line numbers stay true."""
    lines = text.splitlines()
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for number in range(statement.lineno, (statement.end_lineno or 0) + 1):
                lines[number - 1] = ""
    return "\n".join(lines) + "\n"


def _refuse_escapes(tree: ast.Module, dialects: dict[str, str], path: Path) -> None:
    """Let nothing through that leads out of TVMScript."""
    bound = set(_bound_names(tree))
    for node, name in _reached(tree):
        hidden = any(part.startswith("__") for part in name.split("."))
        root = name.partition(".")[0]
        outside = root not in bound | set(dialects) | _BUILTINS and (
            root == "tvm" or hasattr(builtins, root)
        )
        if hidden or outside or _leaves_tvm(name, dialects):
            raise ModelError(f"{path}:{node.lineno}: {name!r} is not part of TVMScript")


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Variables and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _reached(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Every name and every attribute chain, as dotted text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node, name) for name in _quoted(node.value))
        elif isinstance(node, ast.Name):
            yield node, node.id
        elif isinstance(node, ast.Attribute):
            inner = node.value
            dotted = isinstance(inner, ast.Name | ast.Attribute)
            yield node, f"{ast.unparse(inner)}.{node.attr}" if dotted else f"_.{node.attr}"


def _quoted(text: str) -> Iterator[str]:
    """Names that a string calls or walks: TVM's parser evaluates quoted shapes."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    if any(isinstance(node, ast.Call | ast.Attribute | ast.Lambda) for node in ast.walk(tree)):
        yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        yield from (f"_.{node.attr}" for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def _leaves_tvm(name: str, dialects: dict[str, str]) -> bool:
    """Whether a chain such as `T.inspect.os` reaches a module that is not TVM's."""
    root, *attributes = name.split(".")
    reached: object = _DIALECTS.get(dialects.get(root, ""))
    for attribute in attributes:
        reached = getattr(reached, attribute, None)
        if isinstance(reached, ModuleType) and not reached.__name__.startswith("tvm."):
            return True
    return False


def _parse(text: str, dialects: dict[str, str], path: Path) -> IRModule:
    names = {name: _DIALECTS[dialect] for name, dialect in dialects.items()}
    try:
        return _as_module(from_source(text, extra_vars=names), path)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{path}: not TVMScript of this TVM: {_first_line(error)}") from error


def _as_module(found: object, path: Path) -> IRModule:
    if isinstance(found, tvm.tirx.PrimFunc):
        return IRModule({"main": found.with_attr("global_symbol", "main")})
    if not isinstance(found, IRModule) or not found.get_global_vars():
        kind = type(found).__name__
        raise ModelError(f"{path}: holds a {kind}; expected an IRModule or a PrimFunc")
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
