# SPDX-License-Identifier: Apache-2.0
"""A click group whose subcommands are the files of a folder: `<name>.py` provides `command`.

A name that Python keeps for itself has an underscore behind it there.
"""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import click


class CommandFolder(click.Group):
    """Finds subcommands by listing their package; each is imported when it is named."""

    def __init__(self, *args: Any, package: ModuleType, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the files."""
        names = (module.name for module in iter_modules(self._package.__path__))
        return sorted(name.removesuffix("_") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand."""
        if cmd_name not in self.list_commands(ctx):
            return None
        file = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found: click.Command = import_module(f"{self._package.__name__}.{file}").command
        return found
