# SPDX-License-Identifier: Apache-2.0
"""Forks a writer of a memory, warm, for each line it is given, and says its process id.

A writer records one batch after another, and appends every key that `record` returned for to a
file: what was said there was kept before, whenever the writer is killed.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
from dataclasses import replace

from kope_tvm.memory import Experience, Store, experience_key


def write_on(place: str, run_id: str, said: int, kinds: tuple[Experience, ...]) -> None:
    """Record until killed."""
    rng = random.Random(run_id)
    with Store.open(place) as store:
        for number in range(1_000_000):
            proposal = "x" * rng.choice((10, 10, 20_000))
            first = replace(rng.choice(kinds), run_id=run_id, order=number, proposal=proposal)
            batch = [replace(first, seed=seed) for seed in range(rng.choice((1, 1, 1, 20)))]
            store.record_many(batch)
            os.write(said, "".join(f"{experience_key(each)}\n" for each in batch).encode())


def main() -> None:
    """Arguments: the memory, the file of keys, and pickled experiences as hexadecimal digits."""
    place, keys, kinds = sys.argv[1], sys.argv[2], pickle.loads(bytes.fromhex(sys.argv[3]))
    said = os.open(keys, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    Store.open("sqlite://").close()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            write_on(place, line.strip(), said, kinds)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
