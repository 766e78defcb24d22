# SPDX-License-Identifier: Apache-2.0
"""The command `kope`: one file a subcommand in `commands/`, found by listing it.

Nothing here may import TVM: help and errors must answer at once.
"""

from __future__ import annotations

import json
from typing import Any

import click

from kope_tvm import commands
from kope_tvm.command_folder import CommandFolder
from kope_tvm.config import without_credentials
from kope_tvm.console import INTERRUPTED, wants_json
from kope_tvm.errors import KopeError, UsageError


class Failure(click.ClickException):
    """An error as the user sees it: one message, exit code 1, no traceback."""

    exit_code = 1

    def __init__(self, error: Exception, *, as_json: bool) -> None:
        super().__init__(without_credentials(str(error)))
        self._kind = type(error).__name__
        self._as_json = as_json

    def show(self, file: Any = None) -> None:
        """Print it on stderr, and on stdout where that belongs to one JSON object."""
        click.echo(f"Error: {self.message}", err=True, file=file)
        if self._as_json:
            click.echo(json.dumps({"error": {"kind": self._kind, "message": self.message}}))


class WrongCall(Failure):
    """The same for a call that was wrong."""

    exit_code = 2


class KopeGroup(CommandFolder):
    """Turns the exceptions of subcommands into exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; 2 where the call was wrong, 1 where the work failed."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise WrongCall(error, as_json=wants_json(ctx)) from error
        except (KopeError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(error, as_json=wants_json(ctx)) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(
    cls=KopeGroup, package=commands, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="kope-tvm", prog_name="kope")
def main() -> None:
    """Tune models for a machine with Apache TVM, and remember what was learned."""


if __name__ == "__main__":
    main()
