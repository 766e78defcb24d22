# SPDX-License-Identifier: Apache-2.0
"""The check that stands in front of TVM's parser, which evaluates what it reads as Python.

Whatever is not listed here is refused: each statement by its kind, each expression by
`expressions`, each name by whether it is in scope, each function of `T` by `constructs`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kope_tvm.rewrite import constructs
from kope_tvm.rewrite.expressions import (
    called,
    check_element,
    check_number,
    check_numbers,
    check_string,
    of_t,
    refuse_call,
    refuse_node,
)
from kope_tvm.rewrite.text import Offence, Refusal
from kope_tvm.rewrite.weight import Weight, check_weight, weight_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_MAX_NAME = 64
_TAKEN = ", ".join(sorted(constructs.RESERVED))


def first_offence(tree: ast.Module) -> Offence | None:
    """The first thing that a rewrite may not hold, in a tree spelled as `modernised` leaves it."""
    try:
        if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
            raise refuse_node(tree, "a rewrite is one @T.prim_func")
        _Check().function(tree.body[0])
    except Refusal as refusal:
        return refusal.offence
    return None


class _Check:
    """Walks one function with the names in scope."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.named: dict[str, Weight] = {}
        self.statements: dict[type[ast.stmt], Callable[..., None]] = {
            ast.Pass: lambda statement: None,
            ast.Expr: self._effect,
            ast.Assign: self._assign,
            ast.AnnAssign: self._let,
            ast.AugAssign: self._update,
            ast.For: self._loop,
            ast.If: self._branch,
            ast.With: self._block,
        }

    def function(self, func: ast.FunctionDef) -> None:
        """Refuse with Refusal."""
        if [ast.unparse(each) for each in func.decorator_list] != ["T.prim_func(s_tir=True)"]:
            raise refuse_node(func, "it is decorated by @T.prim_func(s_tir=True) alone")
        args = func.args
        extra = [args.vararg, args.kwarg, *args.posonlyargs, *args.kwonlyargs, *args.defaults]
        if any(extra) or func.returns or getattr(func, "type_params", None):
            raise refuse_node(func, "parameters are plain and annotated: A: T.Buffer(shape, dtype)")
        for arg in args.args:
            self._parameter(arg)
        self._body(func.body)

    def _parameter(self, arg: ast.arg) -> None:
        annotation = arg.annotation
        if annotation is None:
            raise refuse_node(arg, "it has no annotation, such as T.Buffer((4, 4), 'float32')")
        if called(annotation) == "Buffer" and isinstance(annotation, ast.Call):
            self._buffer(annotation, 0)
        elif called(annotation) == "handle" and isinstance(annotation, ast.Call):
            if annotation.args or annotation.keywords:
                raise refuse_node(annotation, "a handle takes no arguments")
        elif of_t(annotation) not in constructs.SCALARS | {"handle"}:
            raise refuse_node(annotation, "expected T.Buffer(shape, dtype) or T.handle")
        self._bind(arg.arg, arg)

    def _buffer(self, node: ast.Call, num_before: int) -> None:
        """`shape, dtype` of a buffer behind `num_before` other arguments, and its scope."""
        given = dict(zip(("shape", "dtype"), node.args[num_before:], strict=False))
        for keyword in node.keywords:
            if keyword.arg not in ("shape", "dtype", "scope") or keyword.arg in given:
                raise refuse_node(node, f"its argument {keyword.arg!r} is not read")
            given[keyword.arg] = keyword.value
        if len(node.args) > num_before + 2 or "shape" not in given:
            raise refuse_node(node, "expected a shape and a dtype")
        shape = given.pop("shape")
        check_numbers(shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape], ())
        allowed = {"dtype": constructs.DTYPES, "scope": constructs.SCOPES}
        for name, value in given.items():
            check_string(value, allowed[name], name)

    def _bind(self, name: str, node: ast.AST) -> None:
        if not name.isascii() or name.startswith("__") or len(name) > _MAX_NAME:
            raise refuse_node(node, "names are short, ASCII and without leading '__'")
        if name in constructs.RESERVED:
            raise refuse_node(node, f"the name {name!r} is taken; so are {_TAKEN}")
        self.names.add(name)

    def _number(self, node: ast.expr) -> None:
        check_number(node, self.names)
        check_weight(node, self.named)

    def _numbers(self, nodes: Iterable[ast.expr]) -> None:
        for node in nodes:
            self._number(node)

    def _element(self, node: ast.expr, *, slices: bool) -> None:
        check_element(node, self.names, slices=slices)
        check_weight(node, self.named)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        outer = set(self.names)
        yield
        self.names = outer

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            check = self.statements.get(type(statement))
            if check is None:
                raise refuse_node(statement)
            check(statement)

    def _effect(self, statement: ast.Expr) -> None:
        node = statement.value
        effect = called(node)
        if not isinstance(node, ast.Call) or effect not in ("reads", "writes", "where"):
            raise refuse_call(node) if isinstance(node, ast.Call) else refuse_node(node)
        if node.keywords:
            raise refuse_node(node, "it takes no keywords")
        if effect == "where":
            self._numbers(node.args)
            return
        for given in node.args:
            for element in given.elts if isinstance(given, ast.List) else [given]:
                if isinstance(element, ast.Name):
                    self._number(element)
                else:
                    self._element(element, slices=True)

    def _assign(self, statement: ast.Assign) -> None:
        if len(statement.targets) != 1:
            raise refuse_node(statement, "one target an assignment")
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Subscript):
            self._element(target, slices=False)
            self._number(value)
        elif called(value) in ("sblock_alloc_buffer", "match_buffer"):
            self._allocate(target, value)
        else:
            self._axes(target, value)

    def _allocate(self, target: ast.expr, value: ast.expr) -> None:
        assert isinstance(value, ast.Call)
        if not isinstance(target, ast.Name):
            raise refuse_node(target, "a buffer has one name")
        num_before = 1 if called(value) == "match_buffer" else 0
        for matched in value.args[:num_before]:
            if not isinstance(matched, ast.Name):
                raise refuse_node(value, "only a parameter is matched")
            self._number(matched)
        self._buffer(value, num_before)
        self._new(target)

    def _axes(self, target: ast.expr, value: ast.expr) -> None:
        axis = called(value)
        if not isinstance(value, ast.Call) or not axis.startswith("axis."):
            raise refuse_node(target, "values are assigned to one name, or to buffer elements")
        if value.keywords:
            raise refuse_node(value, "it takes no keywords")
        if axis in ("axis.spatial", "axis.reduce") and len(value.args) == 2:
            domain, binding = value.args
            bounds = domain.elts if isinstance(domain, ast.Tuple | ast.List) else [domain]
            self._numbers([*bounds, binding])
            self._new_ones(target, 1)
        elif axis == "axis.remap" and len(value.args) == 2:
            self._new_ones(target, self._remapped(value))
        else:
            raise refuse_call(value)

    def _remapped(self, value: ast.Call) -> int:
        kinds, bindings = value.args
        text = kinds.value if isinstance(kinds, ast.Constant) else None
        if not isinstance(bindings, ast.List | ast.Tuple) or not isinstance(text, str):
            raise refuse_node(value, 'expected T.axis.remap("SSR", [i, j, k])')
        self._numbers(bindings.elts)
        if set(text) - set("SR") or len(text) != len(bindings.elts):
            raise refuse_node(value, f"{text[:8]!r} for {len(bindings.elts)} axes: one S or R each")
        return len(bindings.elts)

    def _new(self, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            raise refuse_node(target, "a name stands here")
        if target.id in self.names:
            raise refuse_node(
                target,
                "it is bound already; keep a value that changes in a buffer of one element",
            )
        self._bind(target.id, target)

    def _new_ones(self, target: ast.expr, num: int) -> None:
        """A list bound to one name would be a Python list, open to Python's operators."""
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if len(targets) != num:
            raise refuse_node(target, f"{num} names stand here")
        for each in targets:
            self._new(each)

    def _let(self, statement: ast.AnnAssign) -> None:
        annotation, value = statement.annotation, statement.value
        inner = annotation.slice if isinstance(annotation, ast.Subscript) else None
        outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        typed = inner is None or of_t(inner) in constructs.SCALARS
        if of_t(outer) != "let" or not typed or value is None:
            raise refuse_node(statement, "expected `x = value` or `x: T.float32 = value`")
        self._number(value)
        self._new(statement.target)
        if isinstance(statement.target, ast.Name):
            self.named[statement.target.id] = weight_of(value, self.named, is_pasted=True)

    def _update(self, statement: ast.AugAssign) -> None:
        self._element(statement.target, slices=False)
        load = ast.Subscript(ast.Name("_"), ast.Constant(0), ast.Load())
        whole = ast.BinOp(load, statement.op, statement.value)
        check_number(ast.copy_location(whole, statement), self.names | {"_"})
        check_weight(statement.value, self.named)

    def _loop(self, statement: ast.For) -> None:
        iterator = statement.iter
        if statement.orelse or not isinstance(iterator, ast.Call):
            raise refuse_node(statement)
        named = isinstance(iterator.func, ast.Name) and iterator.func.id == "range"
        kind = "serial" if named else called(iterator)
        if kind not in constructs.LOOPS:
            raise refuse_node(iterator, f"expected one of T.{', T.'.join(constructs.LOOPS)}, range")
        for keyword in iterator.keywords:
            if keyword.arg not in constructs.LOOPS[kind]:
                raise refuse_node(iterator, f"its argument {keyword.arg!r} is not read")
            check_string(keyword.value, constructs.THREADS, "thread")
        self._numbers(iterator.args)
        with self._scope():
            self._new_ones(statement.target, len(iterator.args) if kind == "grid" else 1)
            self._body(statement.body)

    def _branch(self, statement: ast.If) -> None:
        self._number(statement.test)
        for body in (statement.body, statement.orelse):
            with self._scope():
                self._body(body)

    def _block(self, statement: ast.With) -> None:
        item = statement.items[0]
        node = item.context_expr
        if len(statement.items) != 1 or item.optional_vars is not None:
            raise refuse_node(statement, "one block a `with`, without `as`")
        kind = called(node)
        if not isinstance(node, ast.Call) or kind not in ("sblock", "init") or node.keywords:
            raise refuse_node(node, "expected T.sblock(name) or T.init()")
        if len(node.args) > (kind == "sblock"):
            raise refuse_node(node, "a block has a name at most")
        for name in node.args:
            text = name.value if isinstance(name, ast.Constant) else None
            if not isinstance(text, str) or not _NAME.fullmatch(text):
                raise refuse_node(node, "a block's name is an identifier")
        with self._scope():
            self._body(statement.body)
