# SPDX-License-Identifier: Apache-2.0
"""The compiler for a board's processor, on this machine."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from kope_tvm.errors import KopeError

TRIPLE = "riscv64-linux-gnu"
PACKAGE = f"g++-{TRIPLE}"


@dataclass(frozen=True)
class CrossCompiler:
    """GCC for another processor."""

    cxx: str
    """Path of the C++ driver; it links C objects too."""
    version: str


def find_cross_compiler() -> CrossCompiler:
    """The compiler on the path; KopeError says what to install where there is none."""
    path = shutil.which(f"{TRIPLE}-g++")
    if path is None:
        raise KopeError(
            f"no {TRIPLE}-g++ on the path, which cross-compiles the board's server and links what "
            f"is measured there; Debian and Ubuntu: apt install {PACKAGE}"
        )
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return CrossCompiler(path, said.stdout.splitlines()[0])
