# SPDX-License-Identifier: Apache-2.0
"""Two hundred writers are killed at random, and what they were told is kept is there."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kope_tvm.memory import Store, experience_key
from kope_tvm.memory.faults import faults
from store_checks import FAILED, FIRST, MENDED

pytestmark = [pytest.mark.device, pytest.mark.slow]

KILLS = 200
AT_ONCE = 4
"""Writers of one file at a time."""
LARGEST_BATCH = 20


@contextmanager
def forker(place: Path, keys: Path) -> Iterator[Callable[[str], int]]:
    """Starts a writer under a run's name, and gives its process id."""
    program = Path(__file__).with_name("writers_to_kill.py")
    kinds = pickle.dumps((FIRST, FAILED, MENDED)).hex()
    command = [sys.executable, str(program), str(place), str(keys), kinds]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def start(run_id: str) -> int:
            stdin.write(f"{run_id}\n")
            return int(stdout.readline())

        yield start
        stdin.close()


def kill(process_id: int) -> None:
    """Return when it is gone."""
    os.kill(process_id, signal.SIGKILL)
    for _ in range(10_000):
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        time.sleep(0.001)
    raise TimeoutError(process_id)


def wait_for_growth(path: Path, size: int) -> None:
    deadline = time.monotonic() + 30
    while path.stat().st_size <= size and time.monotonic() < deadline:
        time.sleep(0.002)


def test_nothing_is_lost_that_record_returned_for(tmp_path: Path) -> None:
    rng = random.Random(20)
    place, keys = tmp_path / "m.sqlite", tmp_path / "keys"
    with forker(place, keys) as start:
        for turn in range(KILLS // AT_ONCE):
            size = keys.stat().st_size if keys.exists() else 0
            writers = [start(f"{turn} {number}") for number in range(AT_ONCE)]
            if turn % 2:  # The others are killed while they open it, or the first of all makes it.
                wait_for_growth(keys, size)
            for writer in writers:
                time.sleep(rng.random() * 0.03)
                kill(writer)
    said = set(keys.read_text().split())
    assert len(said) > KILLS
    with Store.open(place) as store:
        assert store.notice == ""
        kept = {experience_key(each) for each in store.experiences()}
        assert said - kept == set()
        assert len(kept - said) <= KILLS * LARGEST_BATCH
        assert [*faults(store.database)] == []
