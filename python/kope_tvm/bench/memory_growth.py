# SPDX-License-Identifier: Apache-2.0
"""How a memory fares as it grows: recall, opening, writing and size at each number of edges.

`python -m kope_tvm.bench.memory_growth FILE` measures one memory file in a fresh process.
"""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kope_tvm.bench.memory_synthetic import MACHINES, Stream
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.schema import MIGRATIONS
from kope_tvm.memory.store import Store
from kope_tvm.task import Task

SIZES = (1_000, 10_000, 100_000, 1_000_000)
_NUM_RECALLS = 300
_NUM_FRESH = 30
_NUM_SINGLE = 2_000
_NUM_ROUNDS = 250
_ROUND = 16
_BATCH = 4_000
_QUERY_SEED = 99
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Growth:
    """One memory, measured: by the wall clock, and of CPU as others may share the cores."""

    edges: int
    file_bytes: int
    open_secs: float
    """To open it and recall once, Python's imports done before."""
    open_cpu_secs: float
    recall_p50_secs: float
    recall_p99_secs: float
    recall_p99_cpu_secs: float
    num_tasks_recalled: int
    """Different tasks, half of them never seen."""
    after_news_secs: float
    """Median recall right after an edge was recorded."""
    resident_bytes_per_edge: float
    """Growth of the process while it opened and recalled."""
    records_per_sec: float
    """One `record` each, on disk when it returns."""
    records_per_cpu_sec: float
    round_records_per_sec: float
    """`record_many` of 16."""
    round_records_per_cpu_sec: float


class _Secs(NamedTuple):
    wall: float
    cpu: float


def growth_curve(
    sizes: Sequence[int], scratch: Path, say: Callable[[str], None] = lambda text: None
) -> tuple[Growth, ...]:
    """Measure a memory of each size, made in `scratch` or found there from an earlier run."""
    files = _grown(sorted(sizes), scratch, say)
    return tuple(_measured_apart(file, scratch) for file in files)


def _grown(sizes: Sequence[int], scratch: Path, say: Callable[[str], None]) -> list[Path]:
    """One file a size, each a longer copy of the one before."""
    scratch.mkdir(parents=True, exist_ok=True)
    version = len(MIGRATIONS)  # To migrate is no part of opening.
    files = [scratch / f"growth-{size}-v{version}.sqlite" for size in sizes]
    if all(file.is_file() for file in files):
        return files
    growing = scratch / "growing.sqlite"
    for leftover in scratch.glob("growing.sqlite*"):
        leftover.unlink()
    stream, held = Stream().experiences(max(sizes)), 0
    for size, file in zip(sizes, files, strict=True):
        say(f"writing {size} edges")
        with Store.open(growing) as store:
            for machine in MACHINES:
                store.note_machine(machine)
            for batch in _batches(stream, size - held):
                store.record_many(batch)
        held = size
        shutil.copyfile(growing, file.with_suffix(".part"))
        file.with_suffix(".part").rename(file)
    growing.unlink()
    return files


def _batches(stream: Iterator[Experience], count: int) -> Iterator[list[Experience]]:
    while count:
        batch = list(islice(stream, min(_BATCH, count)))
        count -= len(batch)
        yield batch


def _measured_apart(file: Path, scratch: Path) -> Growth:
    """In a process of its own, on a copy, as it writes."""
    copy = scratch / "measured.sqlite"
    shutil.copyfile(file, copy)
    command = [sys.executable, "-m", "kope_tvm.bench.memory_growth", str(copy)]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        for leftover in scratch.glob("measured.sqlite*"):
            leftover.unlink()
    return Growth(**json.loads(done.stdout.splitlines()[-1]))


def measure(file: Path) -> Growth:
    """Measure the memory in a file, in this process; it is written to."""
    file_bytes = file.stat().st_size
    tasks = _query_tasks(file)
    _recalled_once_elsewhere(tasks[0])
    before = _resident_bytes()
    began = _now()
    with Memory.open(file) as memory:
        memory.recall(tasks[0])
        opened = _since(began)
        edges = memory.stats().decisions
        resident = _resident_bytes() - before
        recalls = [_timed(partial(memory.recall, task)) for task in tasks]
        news = Stream(_QUERY_SEED).experiences(10**9)
        singles = [[one] for one in islice(news, _NUM_SINGLE)]
        rounds = [list(islice(news, _ROUND)) for _ in range(_NUM_ROUNDS)]
        single, in_rounds = _recorded(memory, singles), _recorded(memory, rounds)
        return Growth(
            edges=edges,
            file_bytes=file_bytes,
            open_secs=opened.wall,
            open_cpu_secs=opened.cpu,
            recall_p50_secs=_quantile([one.wall for one in recalls], 0.5),
            recall_p99_secs=_quantile([one.wall for one in recalls], 0.99),
            recall_p99_cpu_secs=_quantile([one.cpu for one in recalls], 0.99),
            num_tasks_recalled=len(tasks),
            after_news_secs=_after_news(memory, news, tasks),
            resident_bytes_per_edge=resident / edges,
            records_per_sec=1 / single.wall,
            records_per_cpu_sec=1 / single.cpu,
            round_records_per_sec=1 / in_rounds.wall,
            round_records_per_cpu_sec=1 / in_rounds.cpu,
        )


def _recorded(memory: Memory, batches: Sequence[Sequence[Experience]]) -> _Secs:
    """What one experience takes, recorded in such batches."""
    taken = _timed(lambda: [memory.record_many(batch) for batch in batches])
    count = sum(map(len, batches))
    return _Secs(taken.wall / count, taken.cpu / count)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def _query_tasks(file: Path) -> list[Task]:
    """Tasks to recall for, half of them held by the file where it has so many."""
    stream = Stream(_QUERY_SEED)
    machines = (*MACHINES[:5], MACHINES[0])
    unseen = [stream.unseen_task(machines[i % len(machines)]) for i in range(_NUM_RECALLS)]
    same = Stream()
    for _ in same.experiences(_NUM_RECALLS * 64):
        pass
    held = [Task("main", key, "", MACHINES[0], features) for key, features in same.tasks]
    half = _NUM_RECALLS // 2
    pairs = zip(held[:half], unseen, strict=False)
    paired = [task for pair in pairs for task in pair]
    return paired + unseen[len(paired) : _NUM_RECALLS]


def _recalled_once_elsewhere(task: Task) -> None:
    """What is imported and compiled at the first use is no part of opening a memory."""
    with Memory.open("sqlite://") as empty:
        empty.record_many(Stream().experiences(64))
        empty.recall(task)
    gc.collect()


def _after_news(memory: Memory, news: Iterator[Experience], tasks: Sequence[Task]) -> float:
    times = []
    for task in tasks[:_NUM_FRESH]:
        memory.record(next(news))
        times.append(_timed(partial(memory.recall, task)).wall)
    return _quantile(times, 0.5)


def _timed(call: Callable[[], object]) -> _Secs:
    began = _now()
    call()
    return _since(began)


def _now() -> _Secs:
    return _Secs(time.perf_counter(), time.process_time())


def _since(began: _Secs) -> _Secs:
    now = _now()
    return _Secs(now.wall - began.wall, now.cpu - began.cpu)


def _resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * _PAGE_BYTES


def main() -> None:
    """Print what one file's memory does, as JSON."""
    sys.stdout.write(json.dumps(asdict(measure(Path(sys.argv[1])))) + "\n")


if __name__ == "__main__":
    main()
