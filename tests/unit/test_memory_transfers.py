# SPDX-License-Identifier: Apache-2.0
"""How a decision fared elsewhere is told beside how it fared where it came from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.rows import experience_key
from kope_tvm.memory.store import Store
from kope_tvm.memory.transfers import Transfer, transfers
from store_checks import FIRST

_K1 = "llvm/k1/rvv/256/8"
_RELATIVE = '{"knobs":[[["vlen",2.0]]],"fills":[]}'
_SOURCE = replace(FIRST, run_secs=(1e-3,), baseline_secs=4e-3)


def _carried(state: str, secs: float) -> Experience:
    """The same decision on another machine, where the untuned function takes twice the time."""
    carried: Experience = replace(
        FIRST,
        state=state,
        machine_key=_K1,
        run_secs=(secs,),
        baseline_secs=8e-3,
        source=experience_key(_SOURCE),
        relative=_RELATIVE,
    )
    return carried


def _found(*experiences: Experience) -> tuple[Transfer, ...]:
    with Store.open("sqlite://") as store:
        store.record_many(experiences)
        return transfers(store)


def test_the_ratio_is_of_the_speedups_here_and_there() -> None:
    # 4x where it came from; 8x and 2x here.
    (found,) = _found(_SOURCE, _carried("a", 1e-3), _carried("b", 4e-3))
    assert (found.relative, found.space) == (_RELATIVE, FIRST.space)
    assert (found.machine_from, found.machine_to) == (_SOURCE.machine_key, _K1)
    assert (found.carried, found.failed) == (2, 0)
    assert found.ratio == pytest.approx(1.0)


def test_a_failure_counts_and_has_no_ratio() -> None:
    failed = replace(_carried("c", 0.0), run_secs=(), code="E_BUILD", accepted=False)
    (found,) = _found(_SOURCE, failed)
    assert (found.carried, found.failed, found.ratio) == (1, 1, 0.0)
    (both,) = _found(_SOURCE, failed, _carried("a", 1e-3))
    assert (both.carried, both.failed) == (2, 1)
    assert both.ratio == pytest.approx(2.0)


def test_the_commonest_comes_first_and_machines_are_kept_apart() -> None:
    other = replace(_carried("d", 1e-3), machine_key="llvm/k3/rvv/1024/8")
    found = _found(_SOURCE, other, _carried("a", 1e-3), _carried("b", 1e-3))
    assert [(one.machine_to, one.carried) for one in found] == [
        (_K1, 2),
        ("llvm/k3/rvv/1024/8", 1),
    ]


def test_what_came_from_nowhere_on_record_is_no_transfer() -> None:
    assert _found(_SOURCE, replace(_carried("a", 1e-3), source="0" * 32)) == ()
