# SPDX-License-Identifier: Apache-2.0
"""The compiler and binutils for an architecture, on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.errors import KopeError

HOST = os.uname().machine


@dataclass(frozen=True)
class Toolset:
    """Tools by name, `gcc`, `ld`, `objcopy`, `ar` and `nm`."""

    machine: str

    def run(self, tool: str, arguments: Sequence[str | Path], folder: Path) -> str:
        """Run a tool in a folder and return what it prints; KopeError with its last words."""
        command = [self._path(tool), *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason"]
            raise KopeError(f"{Path(command[0]).name} failed: {' / '.join(said[:3])}")
        return done.stdout

    def undefined(self, file: Path) -> frozenset[str]:
        """The symbols that an object wants of others."""
        return self._symbols(file, "--undefined-only")

    def defined(self, file: Path) -> frozenset[str]:
        """The symbols that an object gives to others."""
        return self._symbols(file, "--defined-only")

    def _symbols(self, file: Path, which: str) -> frozenset[str]:
        listing = self.run("nm", [which, "--extern-only", file.name], file.parent)
        lines = (line.split() for line in listing.splitlines())
        return frozenset(parts[-1] for parts in lines if len(parts) >= 2)

    def _path(self, tool: str) -> str:
        names = [f"{self.machine}-linux-gnu-{tool}"]
        names += [tool] if self.machine == HOST else []
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None:
            package = "gcc" if self.machine == HOST else f"gcc-{self.machine}-linux-gnu"
            raise KopeError(f"no {names[0]} on the path; Debian and Ubuntu: apt install {package}")
        return found
