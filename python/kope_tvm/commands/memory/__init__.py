# SPDX-License-Identifier: Apache-2.0
"""`kope memory`: what is remembered, and what of it would help; one file a subcommand."""

from __future__ import annotations

import sys

import click

from kope_tvm.command_folder import CommandFolder


@click.group("memory", cls=CommandFolder, package=sys.modules[__name__])
def command() -> None:
    """Look into the experience memory, and look after it."""
