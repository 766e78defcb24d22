# SPDX-License-Identifier: Apache-2.0
"""The peer on a whole model: stock MetaSchedule in its own process, with every advantage known.

`python -m kope_tvm.bench.models_stock MODEL TARGET TRIALS SEED WORK_DIR [NAME=SIZE ...]`; the
installed plugin gives it the quick import of the tensor intrinsics, and it gets the threads. Its
rounds are as long as lets every function have one: left alone, MetaSchedule spends 300 trials on
the first five. What it measured before it was broken off counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import tvm
from tvm.s_tir import meta_schedule as ms

from kope_tvm.machine import load_target
from kope_tvm.model import extract_tasks, load_model

_RECORDS = "database_tuning_record.json"


def tune_stock_model(
    model: Path, dims: Mapping[str, int], target: str, num_trials: int, seed: int, work_dir: Path
) -> None:
    """Run this file's `main` to its end."""
    threads = str(load_target(target).facts.num_cores)
    work_dir.mkdir(parents=True, exist_ok=True)
    sizes = [f"{name}={size}" for name, size in dims.items()]
    arguments = [str(model), target, str(num_trials), str(seed), str(work_dir), *sizes]
    with (work_dir / "stock.log").open("a") as log:
        subprocess.run(
            [sys.executable, "-m", "kope_tvm.bench.models_stock", *arguments],
            check=True,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, TVM_NUM_THREADS=threads, OPENBLAS_NUM_THREADS="1"),
        )


def num_measured(work_dir: Path) -> int:
    """Records of a work_dir, failed ones among them."""
    file = work_dir / _RECORDS
    return len(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else 0


def main() -> None:
    """Tune so many trials as are still missing."""
    path, target, num_trials, seed, work_dir = sys.argv[1:6]
    sizes = (each.partition("=") for each in sys.argv[6:])
    model = load_model(path, dims={name: int(size) for name, _, size in sizes})
    facts = load_target(target)
    num_tasks = len(extract_tasks(model, facts))
    left = int(num_trials) - num_measured(Path(work_dir))
    if left <= 0:
        return
    ms.relax_integration.tune_relax(
        model.mod,
        {},
        tvm.target.Target(dict(facts.tvm_target)),
        work_dir,
        left,
        num_trials_per_iter=max(1, int(num_trials) // num_tasks),
        strategy="evolutionary",
        seed=int(seed),
    )


if __name__ == "__main__":
    main()
