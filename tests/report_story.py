# SPDX-License-Identifier: Apache-2.0
"""A work_dir in which everything happened that a report can show."""

from __future__ import annotations

from pathlib import Path

from graph_story import CHEAT, DROPPED, FUSED, GELU, GUESS, KEPT, SLOW, SPLIT
from kope_tvm.chat.dialogue import Reply, Request, Spent, Usage
from kope_tvm.chat.exchanges import EXCHANGES, Exchanges
from kope_tvm.memory.store import Store
from kope_tvm.memory.work_dirs import JOURNAL
from kope_tvm.performance import Comparison
from kope_tvm.run_record import Call, Cost, note_call, note_cost
from kope_tvm.settled import Settled

COMMAND = "kope tune op:softmax:m=512,n=1024 --target host --trials 8"

STORY_OF_SOFTMAX = (GUESS, FUSED, SPLIT, DROPPED, KEPT, CHEAT, SLOW)


def make_work_dir(folder: Path) -> Path:
    """Softmax 16 times as fast and accepted, gelu 8 times and not proved."""
    folder.mkdir()
    store = Store.open(str(folder / JOURNAL))
    for one in (*STORY_OF_SOFTMAX, GELU):
        store.record(one)
    store.close()
    settled = Settled(folder)
    settled.note(GUESS.task_key, 7, Comparison(True, False, True, 16.0, 1.03))
    settled.note(GELU.task_key, 1, Comparison(False, False, True, 8.0, 1.03))
    note_call(folder, Call("run-1", COMMAND, "host", 8, ("chat", "rules"), 7, "tvm", 1.0))
    spent = Spent(1, 900, 100, 0.0042)
    note_cost(folder, "run-1", Cost(8, 1, 100.0, 80.0, 15.0, 5.0, spent))
    _note_exchange(folder / EXCHANGES)
    return folder


def _note_exchange(path: Path) -> None:
    request = Request(
        GUESS.task_key,
        "propose",
        "1",
        "You tune.",
        "## Machine\navx512, 2 cores\n## Now\n1 call left",
        {},
        dropped={"menu": 77},
    )
    Exchanges(path).answered(request, Reply("{}", Usage(900, 100), 1.0, "json_schema"))
