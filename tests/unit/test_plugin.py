# SPDX-License-Identifier: Apache-2.0
"""How kope enters TVM's namespaces, and leaves them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
import tvm
from tvm.s_tir.meta_schedule import SearchStrategy, search_strategy

from kope_tvm import plugin
from kope_tvm.quick_stack import quick_stack


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    plugin.install()
    yield
    plugin.install()


def test_kope_resolves_through_both_aliases() -> None:
    for create in (SearchStrategy.create, search_strategy.create):
        assert type(create("kope")).__name__ == "KopeStrategy"


def test_stock_strategies_still_resolve_and_unknown_ones_still_fail() -> None:
    assert type(SearchStrategy.create("replay-trace")).__name__ == "ReplayTrace"
    with pytest.raises(ValueError, match="Unknown SearchStrategy: nonsense"):
        SearchStrategy.create("nonsense")


def test_installing_twice_and_uninstalling_once_leaves_tvm_as_it_was() -> None:
    plugin.install()
    plugin.uninstall()
    assert not hasattr(tvm, "tune")
    with pytest.raises(ValueError, match="Unknown SearchStrategy: kope"):
        SearchStrategy.create("kope")
    assert search_strategy.create is SearchStrategy.create


def test_the_quick_stack_gives_frames_without_source_and_goes_away() -> None:
    original = inspect.stack
    with quick_stack():
        (here, *_) = inspect.stack()
        assert here.frame is inspect.currentframe()
        assert here.function == "test_the_quick_stack_gives_frames_without_source_and_goes_away"
        assert here.code_context is None
    assert inspect.stack is original
