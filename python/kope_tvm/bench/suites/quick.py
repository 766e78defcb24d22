# SPDX-License-Identifier: Apache-2.0
"""Twelve operators on this machine; or one, by its spec."""

from __future__ import annotations

from kope_tvm.bench.output import publish
from kope_tvm.bench.run import run_suite
from kope_tvm.bench.wanted import Wanted
from kope_tvm.operators import QUICK_SUITE

_PEERS = ("metaschedule", "onnxruntime")


def run(wanted: Wanted) -> None:
    """Tune with kope and its peers, time all in turns, print ratios."""
    specs = (wanted.suite,) if wanted.suite.startswith("op:") else QUICK_SUITE
    publish(run_suite(specs, wanted, _PEERS), wanted)
