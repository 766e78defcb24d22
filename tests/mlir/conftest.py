# SPDX-License-Identifier: Apache-2.0
"""The files that tests of MLIR read."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir(project_dir: Path) -> Path:
    return project_dir / "tests" / "data"
