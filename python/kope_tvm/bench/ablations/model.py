# SPDX-License-Identifier: Apache-2.0
"""The panel without its model: experience, rules and search alone."""

from __future__ import annotations

from kope_tvm.bench.ablation import Ablation, usual_seats

ABLATION = Ablation(
    "without a model", needs_model=True, seats=lambda proposer: usual_seats("experience")
)
