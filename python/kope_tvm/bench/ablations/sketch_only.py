# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's own search and nothing else, measured and checked as kope does."""

from __future__ import annotations

from kope_tvm.bench.ablation import Ablation, usual_seats

ABLATION = Ablation("sketch only", seats=lambda proposer: usual_seats("sketch"))
