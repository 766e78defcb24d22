# SPDX-License-Identifier: Apache-2.0
"""What every test shares: where the project lies, and threads that leave the machine usable."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before NumPy and TVM are imported: neither reads them again.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "2")
# A new memory is to hold what its test puts there.
os.environ.setdefault("KOPE_SEED", "off")
# What was found out about this machine outside the tests must not reach them.
if "KOPE_HOME" not in os.environ:
    os.environ["KOPE_HOME"] = tempfile.mkdtemp(prefix="kope-tests-")
    atexit.register(shutil.rmtree, os.environ["KOPE_HOME"], ignore_errors=True)

# A run in the background ignores Ctrl-C, and what tests start and interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def project_dir() -> Path:
    return Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _loggers_as_they_were() -> Iterator[None]:
    """MetaSchedule cuts its loggers off from the root; pytest then gives them handlers of its own,
    and the next tuning in this process trips over those, which have no name.
    """
    yield
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("tvm.s_tir.meta_schedule"):
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
