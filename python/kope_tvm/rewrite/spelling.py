# SPDX-License-Identifier: Apache-2.0
"""Old and everyday spellings of TVMScript put into those that TVM 0.27 reads, on the tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from kope_tvm.rewrite.constructs import CONVERSIONS
from kope_tvm.rewrite.text import Refusal

RENAMED = {
    "block": "sblock",
    "block_attr": "sblock_attr",
    "alloc_buffer": "sblock_alloc_buffer",
    "buffer_decl": "Buffer",
    "power": "pow",
    "S": "spatial",
    "R": "reduce",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
"""Attributes of `T` and of `T.axis`."""

_BUILTINS = {"max": "max", "min": "min", "abs": "abs", "pow": "pow", "round": "round"}
_PACKAGES = frozenset({"tvm", "tvm.script", "tvm.script.parser", "__future__"})
_MODULES = frozenset({"ir", "tir", "tirx", "annotations"})
_DECORATOR_KEYWORDS = frozenset({"private", "s_tir", "check_well_formed"})
_CONSTRUCTS = frozenset({"sblock_alloc_buffer", "match_buffer", "axis"})


def modernised(tree: ast.Module) -> ast.Module:
    """One function `main` in today's spelling; raises Refusal where there is not exactly one.

    Nothing is evaluated, and what it does not know it leaves for the allow-list to judge.
    """
    aliases = {"tir": "T", "tirx": "T"}
    body = [each for each in tree.body if not _header(each, aliases) and not _is_text(each)]
    constants, rest = _constants(body)
    func = _only_function(rest)
    func.name, func.returns, func.type_comment = "main", _kept_return(func.returns), None
    func.decorator_list = [_decorator(func)]
    constants |= _own_constants(func)
    spelled = _Spelling(aliases, constants).visit(func)
    return ast.fix_missing_locations(ast.Module(body=[spelled], type_ignores=[]))


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _header(statement: ast.stmt, aliases: dict[str, str]) -> bool:
    """Whether a line is one of TVMScript's imports; notes what it calls the namespace."""
    if isinstance(statement, ast.Import):
        return all(alias.name == "tvm" and not alias.asname for alias in statement.names)
    if not isinstance(statement, ast.ImportFrom):
        return False
    known = statement.module in _PACKAGES and not statement.level
    if not known or not all(alias.name in _MODULES for alias in statement.names):
        return False
    for alias in statement.names:
        if alias.name in ("tir", "tirx"):
            aliases[alias.asname or alias.name] = "T"
    return True


def _constants(body: list[ast.stmt]) -> tuple[dict[str, ast.Constant], list[ast.stmt]]:
    """`N = 512` lines before the function, and the other statements."""
    found: dict[str, ast.Constant] = {}
    rest = []
    for statement in body:
        named = _named_constant(statement)
        if named and named[0] not in found:
            found |= dict([named])
        else:
            rest.append(statement)
    return found, rest


def _named_constant(statement: ast.stmt) -> tuple[str, ast.Constant] | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    plain = isinstance(value, ast.Constant) and type(value.value) in (int, float, str)
    if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and plain:
        return target.id, value
    return None


def _own_constants(func: ast.FunctionDef) -> dict[str, ast.Constant]:
    """Integers named once, at the outer level of the body, taken out of it."""
    bound = Counter(_bound_names(func))
    found: dict[str, ast.Constant] = {}
    rest: list[ast.stmt] = []
    for statement in func.body:
        named = _named_constant(statement)
        if named and type(named[1].value) is int and bound[named[0]] == 1:
            found |= dict([named])
        else:
            rest.append(statement)
    func.body = rest or [ast.Pass(lineno=func.lineno, col_offset=0)]
    return found


def _bound_names(func: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(func):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _only_function(body: list[ast.stmt]) -> ast.FunctionDef:
    if len(body) == 1 and isinstance(body[0], ast.ClassDef) and _is_module_wrapper(body[0]):
        body = [each for each in body[0].body if not _is_text(each)]
    functions = [each for each in body if isinstance(each, ast.FunctionDef)]
    for statement in body:
        if not isinstance(statement, ast.FunctionDef):
            raise Refusal(
                statement.lineno,
                repr(ast.unparse(statement).split("\n")[0][:60]),
                "is not allowed beside the function; a rewrite is one @T.prim_func",
            )
    if len(functions) != 1:
        line = functions[1].lineno if functions else 1
        raise Refusal(line, f"{len(functions)} functions", "given; a rewrite is one @T.prim_func")
    return functions[0]


def _is_module_wrapper(node: ast.ClassDef) -> bool:
    """`@I.ir_module class Module:`, with nothing that is run."""
    decorators = {ast.unparse(each) for each in node.decorator_list}
    known = decorators <= {"I.ir_module", "tvm.script.ir_module", "ir_module"}
    return known and not (node.bases or node.keywords or getattr(node, "type_params", None))


def _kept_return(returns: ast.expr | None) -> ast.expr | None:
    nothing = isinstance(returns, ast.Constant) and returns.value is None
    return None if nothing else returns


def _decorator(func: ast.FunctionDef) -> ast.expr:
    """`@T.prim_func(s_tir=True)` for each way to write it, and for none."""
    known = all(_is_prim_func(each) for each in func.decorator_list)
    if len(func.decorator_list) > 1 or not known:
        shown = ast.unparse(func.decorator_list[0])[:60]
        raise Refusal(func.lineno, repr(f"@{shown}"), "is not allowed; use @T.prim_func")
    return ast.copy_location(ast.parse("T.prim_func(s_tir=True)", mode="eval").body, func)


def _is_prim_func(node: ast.expr) -> bool:
    keywords: list[ast.keyword] = []
    if isinstance(node, ast.Call):
        keywords, positional, node = node.keywords, node.args, node.func
        if positional:
            return False
    named = ast.unparse(node) in ("T.prim_func", "tir.prim_func", "tirx.prim_func")
    return named and all(
        each.arg in _DECORATOR_KEYWORDS and isinstance(each.value, ast.Constant)
        for each in keywords
    )


class _Spelling(ast.NodeTransformer):
    """Respells names, attributes, calls and assignments."""

    def __init__(self, aliases: dict[str, str], constants: dict[str, ast.Constant]) -> None:
        self.aliases = aliases
        self.constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.constants:
            return ast.copy_location(ast.Constant(self.constants[node.id].value), node)
        if isinstance(node.ctx, ast.Load):
            node.id = self.aliases.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        inner = self.visit(node.value)
        if isinstance(inner, ast.Name) and inner.id == "tvm" and node.attr in ("tir", "tirx"):
            return ast.copy_location(ast.Name("T", ast.Load()), node)
        node.value = inner
        if ast.unparse(inner) in ("T", "T.axis"):
            node.attr = RENAMED.get(node.attr, node.attr)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.value) == "T.Buffer":
            index = node.slice
            args = index.elts if isinstance(index, ast.Tuple) else [index]
            return ast.copy_location(ast.Call(node.value, args, []), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        builtin = _BUILTINS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if builtin:
            node.func = ast.copy_location(_of_t(builtin), node)
        self.generic_visit(node)
        return ast.copy_location(_respelled(node), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Python would compute `1 << n` and `2 ** n` itself; TVM knows no `**` at all."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow):
            return ast.copy_location(_power(node.left, node.right), node)
        if isinstance(node.op, ast.LShift) and not isinstance(node.right, ast.Constant):
            call = ast.Call(_of_t("shift_left"), [node.left, node.right], [])
            return ast.copy_location(call, node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        self.generic_visit(node)
        if _is_text(node) or _sets_plain_attributes(node.value):
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """`x = value` names a value; today's TVM would make it a buffer of one element."""
        self.generic_visit(node)
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        if _construct(node.value) in _CONSTRUCTS:
            return node
        return ast.copy_location(_let(node.targets[0], _of_t("let"), node.value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if _construct(node.annotation) in CONVERSIONS and isinstance(node.target, ast.Name):
            typed = ast.Subscript(_of_t("let"), node.annotation, ast.Load())
            node.annotation = ast.copy_location(typed, node.annotation)
        return node


def _power(base: ast.expr, exponent: ast.expr) -> ast.expr:
    """`x * x` for the square of what is cheap to read twice, else `T.pow`."""
    index = base.slice if isinstance(base, ast.Subscript) else None
    indices = index.elts if isinstance(index, ast.Tuple) else [index or base]
    plain = all(isinstance(each, ast.Name | ast.Constant) for each in indices)
    squared = isinstance(exponent, ast.Constant) and exponent.value == 2
    if squared and plain and isinstance(base, ast.Name | ast.Subscript):
        return ast.BinOp(base, ast.Mult(), base)
    return ast.Call(_of_t("pow"), [base, exponent], [])


def _respelled(node: ast.Call) -> ast.expr:
    """A call in today's spelling: `x.astype(d)`, `T.all(a, b)`."""
    attribute = node.func
    if not isinstance(attribute, ast.Attribute) or node.keywords:
        return node
    of_t = isinstance(attribute.value, ast.Name) and attribute.value.id == "T"
    if attribute.attr == "astype" and not of_t and len(node.args) == 1:
        return ast.Call(_of_t("cast"), [attribute.value, node.args[0]], [])
    if attribute.attr in ("all", "any") and of_t and len(node.args) > 1:
        return ast.BoolOp(ast.And() if attribute.attr == "all" else ast.Or(), node.args)
    return node


def _sets_plain_attributes(node: ast.expr) -> bool:
    """`T.func_attr({...})` of constants: dropped, the original function's attributes stay."""
    if not isinstance(node, ast.Call) or _construct(node) != "func_attr" or node.keywords:
        return False
    given = node.args[0] if len(node.args) == 1 else None
    if not isinstance(given, ast.Dict):
        return False
    return all(isinstance(each, ast.Constant) for each in [*given.keys, *given.values])


def _construct(node: ast.expr) -> str:
    """The first attribute of a chain on `T`, called or not; empty for anything else."""
    name = ""
    node = node.func if isinstance(node, ast.Call) else node
    while isinstance(node, ast.Attribute):
        name, node = node.attr, node.value
    return name if isinstance(node, ast.Name) and node.id == "T" else ""


def _of_t(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name("T", ast.Load()), name, ast.Load())


def _let(target: ast.Name, annotation: ast.expr, value: ast.expr) -> ast.AnnAssign:
    return ast.AnnAssign(target=target, annotation=annotation, value=value, simple=1)
