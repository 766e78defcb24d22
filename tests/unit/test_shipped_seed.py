# SPDX-License-Identifier: Apache-2.0
"""The seed that ships: what it knows, and that it says nothing of where it was made."""

from __future__ import annotations

import base64
import lzma
import re

import pytest

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.seed import SEED, load_seed, seed_versions
from kope_tvm.memory.store import Store

_PLACE = re.compile(r"(?<![\w.])/(?:tmp|home|root|work|usr|var)/")


@pytest.fixture(scope="module")
def shipped() -> list[Experience]:
    with Store.open("sqlite://") as store:
        assert load_seed(store, SEED) > 0
        assert load_seed(store, SEED) == 0
        assert seed_versions(store) == tuple(range(1, len(seed_versions(store)) + 1))
        return list(store.experiences())


@pytest.mark.parametrize("isa", ["avx2", "cuda", "rvv"])
def test_it_was_learned_on_machines_of(isa: str, shipped: list[Experience]) -> None:
    found = [one for one in shipped if f"/{isa}/" in one.machine_key]
    right = [one for one in found if one.accepted and not one.code]
    assert {one.proposer for one in right} >= {"rules", "experience"}
    assert all(min(one.run_secs) > 0 for one in right)


def test_it_holds_nothing_suspicious_and_no_path(shipped: list[Experience]) -> None:
    assert not [one for one in shipped if one.suspicious]
    text = lzma.decompress(base64.b64decode(SEED.read_bytes())).decode()
    assert _PLACE.search(text) is None


def test_it_is_small() -> None:
    assert SEED.stat().st_size < 200_000
