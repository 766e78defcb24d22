# SPDX-License-Identifier: Apache-2.0
"""The peer: stock MetaSchedule on one operator, in its own process, with every advantage known.

`python -m kope_tvm.bench.stock SPEC TARGET TRIALS SEED WORK_DIR OUT`; the installed plugin gives
it the quick import of the tensor intrinsics, in this process and in its workers, and it gets the
threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tvm
from tvm.s_tir import meta_schedule as ms

from kope_tvm.machine import load_target
from kope_tvm.model import extract_tasks, load_model


def tune_stock(
    spec: str, target: str, num_trials: int, seed: int, work_dir: Path, out: Path
) -> None:
    """Run this file's `main` to its end."""
    threads = str(load_target(target).facts.num_cores)
    work_dir.mkdir(parents=True, exist_ok=True)
    arguments = [spec, target, str(num_trials), str(seed), str(work_dir), str(out)]
    with (work_dir / "stock.log").open("w") as log:
        subprocess.run(
            [sys.executable, "-m", "kope_tvm.bench.stock", *arguments],
            check=True,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, TVM_NUM_THREADS=threads, OPENBLAS_NUM_THREADS="1"),
        )


def main() -> None:
    """Tune, then write the best module as JSON; the untuned one where nothing was found."""
    spec, target, num_trials, seed, work_dir, out = sys.argv[1:7]
    facts = load_target(target)
    ((_, mod, _),) = extract_tasks(load_model(spec), facts)
    tvm_target = tvm.target.Target(dict(facts.tvm_target))
    database = ms.tune_tir(
        mod, tvm_target, work_dir, int(num_trials), strategy="evolutionary", seed=int(seed)
    )
    best = database.query_schedule(mod, tvm_target, workload_name="main")
    Path(out).write_text(tvm.ir.save_json(best.mod if best is not None else mod))


if __name__ == "__main__":
    main()
