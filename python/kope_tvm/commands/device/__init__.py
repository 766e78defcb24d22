# SPDX-License-Identifier: Apache-2.0
"""`kope device`: boards and their server; one file a subcommand."""

from __future__ import annotations

import sys

import click

from kope_tvm.command_folder import CommandFolder


@click.group("device", cls=CommandFolder, package=sys.modules[__name__])
def command() -> None:
    """Build a board's server, serve an emulated board, ask a board what it is."""
