# SPDX-License-Identifier: Apache-2.0
"""The only file that touches TVM's namespaces; `import tvm` loads it (entry point `tvm.backends`).

It adds the search strategy "kope" to MetaSchedule's factory, `tvm.tune`, vector code for exp, erf
and log (whoever compiles a record later: it must run as it was measured), and a quick
`inspect.stack` for the length of `import tvm.s_tir.tensor_intrin`. `install` is idempotent,
`uninstall` undoes it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kope_tvm.quick_stack import quick_stack
from kope_tvm.versions import check_versions

_INTRIN = "tvm.s_tir.tensor_intrin"


def autoload() -> None:
    """Entry point: called by TVM at the end of `import tvm`; a raise becomes TVM's warning."""
    check_versions()
    import tvm

    if not tvm.base._RUNTIME_ONLY:  # Where there is no compiler there is nothing to tune.
        install()


def install() -> None:
    """Make "kope" resolve through every door of TVM."""
    import tvm
    from tvm.s_tir.meta_schedule import database, search_strategy

    from kope_tvm.schedules import vecmath

    _patch(search_strategy.SearchStrategy, "create", staticmethod(_create))
    for module in (search_strategy, search_strategy.search_strategy):
        _patch(module, "create", _create)
    _patch(tvm, "tune", _tune)
    vecmath.install()
    _patch(database.JSONDatabase, "__init__", _open_database)
    _patch(database.JSONDatabase, "__init_handle_by_constructor__", _made_by_a_call)
    if not any(isinstance(finder, _QuickIntrin) for finder in sys.meta_path):
        sys.meta_path.insert(0, _QuickIntrin())


def uninstall() -> None:
    """Put TVM's namespaces back as they were."""
    from kope_tvm.schedules import vecmath

    vecmath.uninstall()
    while _undo:
        owner, name, value = _undo.pop()
        if value is None:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _QuickIntrin)]


_undo: list[tuple[Any, str, Any]] = []


def _patch(owner: Any, name: str, value: Any) -> None:
    if any(known is owner and label == name for known, label, _ in _undo):
        return
    _undo.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, value)


def _create(kind: str = "evolutionary", *args: Any, **kwargs: Any) -> Any:
    """Create a search strategy, as TVM's factory does, with "kope" among them."""
    if kind == "kope":
        from kope_tvm.strategy import KopeStrategy

        return KopeStrategy(*args, **kwargs)
    original = next(v for _, name, v in _undo if name == "create" and isinstance(v, staticmethod))
    return original.__func__(kind, *args, **kwargs)


def _tune(*args: Any, **kwargs: Any) -> Any:
    """`kope_tvm.tune`, imported when it is called."""
    from kope_tvm.tuning import tune

    return tune(*args, **kwargs)


def _open_database(self: Any, *args: Any, **kwargs: Any) -> None:
    """Register kope's intrinsics and reducers first: MetaSchedule replays records as it loads."""
    from kope_tvm.mlir import combiners  # noqa: F401
    from kope_tvm.schedules import tensorized  # noqa: F401

    original = next(value for _, name, value in _undo if name == "__init__")
    original(self, *args, **kwargs)


def _made_by_a_call(self: Any, constructor: Any, *args: Any) -> None:
    """Make it by a call, which lets go of Python meanwhile, as a constructor does not.

    MetaSchedule replays records on threads of its own, and some reducers are Python's.
    """
    self.__move_handle_from__(constructor(*args))


class _QuickIntrin(importlib.abc.MetaPathFinder):
    """Wraps the loader of TVM's tensor intrinsics, whose parsing asks for the whole stack."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _INTRIN:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _QuickLoader(fullname, spec.origin)
        return spec


class _QuickLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with quick_stack():
            super().exec_module(module)
