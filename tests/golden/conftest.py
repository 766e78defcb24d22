# SPDX-License-Identifier: Apache-2.0
"""Prompts held against their text on disk; `pytest tests/golden --update-golden` writes it anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with `<name>.txt` beside the tests."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).with_name(f"{name}.txt")
        if request.config.getoption("--update-golden", default=False):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
