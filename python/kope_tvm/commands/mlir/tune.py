# SPDX-License-Identifier: Apache-2.0
"""`kope mlir tune`: the functions of an MLIR file, tuned like any other."""

from __future__ import annotations

from kope_tvm.commands.tune import command as command
