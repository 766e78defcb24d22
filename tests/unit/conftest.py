# SPDX-License-Identifier: Apache-2.0
"""An empty memory for whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kope_tvm.memory.memory import Memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Open an empty memory."""
    from kope_tvm.memory.memory import Memory

    with Memory.open(tmp_path / "m.sqlite") as opened:
        yield opened
