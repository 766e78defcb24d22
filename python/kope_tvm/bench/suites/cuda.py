# SPDX-License-Identifier: Apache-2.0
"""Twenty-four operators on a GPU, beside torch's compiler."""

from __future__ import annotations

import json

from rich.console import Console

from kope_tvm.bench.cuda import kept_folder, run_cuda
from kope_tvm.bench.cuda_result import table
from kope_tvm.bench.wanted import Wanted

_PIPE_COLUMNS = 200


def run(wanted: Wanted) -> None:
    """Tune with kope, time it and its peers in turns, print ratios."""
    found = run_cuda(wanted, kept_folder(wanted.json_file))
    if wanted.json_file is not None:
        wanted.json_file.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.width = console.width if console.is_terminal else _PIPE_COLUMNS
    console.print(table(found))
