# SPDX-License-Identifier: Apache-2.0
"""Whole models on this machine, `--trials` in all for each; `--part` names some of them."""

from __future__ import annotations

from kope_tvm.bench.models import report, run_models
from kope_tvm.bench.models_result import PEERS
from kope_tvm.bench.wanted import Wanted


def run(wanted: Wanted) -> None:
    """Tune with kope and its peers, prove, time all in turns, print ratios."""
    found = run_models(
        wanted.parts,
        PEERS if wanted.against is None else wanted.against,
        target=wanted.target or "host",
        trials=wanted.trials,
        seed=wanted.seed,
        say=wanted.say,
    )
    report(found, wanted.json_file)
