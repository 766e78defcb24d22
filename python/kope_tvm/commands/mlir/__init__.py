# SPDX-License-Identifier: Apache-2.0
"""`kope mlir`: linalg tuned, and what was learned said to MLIR; one file a subcommand."""

from __future__ import annotations

import sys

import click

from kope_tvm.command_folder import CommandFolder


@click.group("mlir", cls=CommandFolder, package=sys.modules[__name__])
def command() -> None:
    """Tune linalg, and take what was found back to MLIR."""
