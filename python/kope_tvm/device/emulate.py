# SPDX-License-Identifier: Apache-2.0
"""A board without hardware: a tracker and the board's own server under QEMU's user mode.

Right at the chosen vector length; how long anything takes there means nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kope_tvm.device.build import build_server
from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.emulator import Emulator, find_emulator
from kope_tvm.device.place import Place
from kope_tvm.device.processes import LOCAL, ServerProcess, TrackerProcess
from kope_tvm.errors import KopeError
from kope_tvm.target import TargetSpec

_READY_SECS = 60.0
_POLL_SECS = 0.1
_TOLD_EVERY = 10
_LOG = logging.getLogger("kope_tvm")


@dataclass(frozen=True)
class Options:
    """How the emulated board differs from what its target says."""

    vlen_bits: int = 0
    """Of its vector registers; 0 for the target's."""
    emulator: tuple[str, ...] = ()
    """More arguments of QEMU, such as `-plugin FILE`."""
    server: tuple[str, ...] = ()
    """More arguments of the server, such as `--timer LIB.so`."""
    log: Path | None = None
    """Where the server writes; this process's stderr where None."""


@dataclass
class EmulatedBoard:
    """One that is up; `place` is where it is met."""

    place: Place
    _emulator: Emulator
    _command: Sequence[str]
    _binary: Path
    _arguments: Sequence[str]
    _memory_bytes: int
    _log: Path | None
    _servers: list[ServerProcess] = field(default_factory=list)

    @property
    def server(self) -> ServerProcess:
        """The one that was started last."""
        return self._servers[-1]

    def start(self, binary: Path | None = None) -> None:
        """Start its server, of another file where one is named; returns when it is registered."""
        before = self._registered()
        server = ServerProcess(
            self._emulator,
            self._command,
            binary or self._binary,
            self._arguments,
            memory_bytes=self._memory_bytes,
            log=self._log,
        )
        self._servers.append(server)
        deadline = time.monotonic() + _READY_SECS
        while self._registered() <= before:
            if not server.is_alive or time.monotonic() > deadline:
                server.end()
                raise KopeError(f"{self.place}: the emulated server did not come up; see its log")
            time.sleep(_POLL_SECS)

    def end(self) -> None:
        """End every server that was started."""
        for server in self._servers:
            server.end()

    def _registered(self) -> int:
        from kope_tvm.device.tracker import num_registered

        return num_registered(self.place)


@contextmanager
def emulated_board(
    spec: TargetSpec,
    options: Options | None = None,
    *,
    tracker: tuple[str, int] | None = None,
    binary: Path | None = None,
) -> Iterator[EmulatedBoard]:
    """A running board of this target, at a tracker of its own unless one is named.

    Builds the server where there is none yet, which takes a minute or two.
    """
    options = options or Options()
    emulator = find_emulator()
    command = [*emulator.command(spec, options.vlen_bits), *options.emulator]
    binary = binary or build_server(progress=_told)
    with ExitStack() as opened:
        if tracker is None:
            started = TrackerProcess()
            opened.callback(started.end)
            tracker = LOCAL, started.port
        place = Place(*tracker, spec.rpc_key or spec.name)
        arguments = (*_arguments(spec, place), *options.server)
        memory_bytes = spec.limits.memory_bytes
        board = EmulatedBoard(
            place, emulator, command, binary, arguments, memory_bytes, options.log
        )
        opened.callback(board.end)
        board.start()
        yield board


def _told(done: int, num_all: int, name: str) -> None:
    """A line now and then while nothing else is seen for minutes."""
    if done % _TOLD_EVERY == 0 and done < num_all:
        _LOG.warning("building the board's server: %d of %d objects", done, num_all)


def _arguments(spec: TargetSpec, place: Place) -> list[str]:
    limits = spec.limits
    return [
        *("--key", place.key, "--tracker", place.tracker, "--host", LOCAL, "--emulated"),
        *("--memory-bytes", str(limits.memory_bytes), "--linker", find_cross_compiler().cxx),
    ]
