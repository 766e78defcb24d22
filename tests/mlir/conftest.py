# SPDX-License-Identifier: Apache-2.0
"""The files that tests of MLIR read."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """What the suite `mlir` measures."""
    from kope_tvm.bench.mlir import MODULES

    return MODULES
