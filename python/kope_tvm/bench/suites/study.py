# SPDX-License-Identifier: Apache-2.0
"""What a model adds: seven operators of stored exchanges, or of a live endpoint."""

from __future__ import annotations

from dataclasses import replace

from kope_tvm.bench.output import publish
from kope_tvm.bench.run import run_suite
from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import UsageError

OPERATORS = (
    "op:matmul:m=81,n=41,k=19",
    "op:matmul:m=540,n=516,k=332",
    "op:softmax:m=512,n=1024",
    "op:layernorm:m=512,n=768",
    "op:depthwise_conv2d:n=1,ci=32,h=112,w=112,kernel=3,stride=2,pad=1",
    "op:matmul_nbits:m=1,n=2048,k=2048",
    "op:attention:h=8,m=128,n=128,d=64",
)
_ABLATIONS = ("sketch-only", "model")


def run(wanted: Wanted) -> None:
    """With the model, without it, and MetaSchedule's search alone, at equal trials.

    Raises UsageError where no model is to be had.
    """
    if wanted.proposer != "chat" and wanted.exchanges is None:
        raise UsageError(
            "suite study is about a model: add --proposer chat to ask the endpoint, or "
            "--exchanges FOLDER to answer from stored exchanges"
        )
    told = replace(wanted, without=wanted.without or _ABLATIONS)
    publish(run_suite(OPERATORS, told, ()), told)
