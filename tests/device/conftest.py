# SPDX-License-Identifier: Apache-2.0
"""One measuring pool for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from measure_pool import LOG, QUICK, SPEC

from kope_tvm.measure import Pool


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(SPEC, QUICK, LOG) as shared:
        yield shared
