# SPDX-License-Identifier: Apache-2.0
"""Proposes what a model said in stored exchanges; no network, no tokens spent."""

from __future__ import annotations

from kope_tvm.proposers.chat import Chat


class Replay(Chat):
    """The same reading and mending as live, told apart by its name."""

    name = "replay"
