# SPDX-License-Identifier: Apache-2.0
"""Opening a memory: the user's own one starts with the seed that ships with kope."""

from __future__ import annotations

import logging
from pathlib import Path

from kope_tvm.config import wants_seed
from kope_tvm.errors import KopeError
from kope_tvm.memory.location import default_path
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.seed import SEED, load_seed

_LOG = logging.getLogger("kope_tvm")


def open_seeded(url: str | None, shipped: Path = SEED) -> Memory:
    """The memory at a URL or path, or for None the user's own, seeded where it is a new one."""
    path = default_path()
    is_new = url is None and not path.exists() and shipped.is_file() and wants_seed(path.parent)
    memory = Memory.open(url)
    if is_new:
        try:
            load_seed(memory.store, shipped)
        except KopeError as error:  # The memory is as good as any new one without it.
            _LOG.warning("no seed: %s", error)
    return memory
