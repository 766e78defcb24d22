# SPDX-License-Identifier: Apache-2.0
"""What every test shares: where the project lies, and threads that leave the machine usable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before NumPy and TVM are imported: neither reads them again.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "2")
# A new memory is to hold what its test puts there.
os.environ.setdefault("KOPE_SEED", "off")


@pytest.fixture(scope="session")
def project_dir() -> Path:
    return Path(__file__).resolve().parents[1]
