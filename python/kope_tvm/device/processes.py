# SPDX-License-Identifier: Apache-2.0
"""The two processes of a board on this machine: a tracker, and a server under the emulator."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kope_tvm.device.emulator import Emulator
from kope_tvm.errors import KopeError

LOCAL = "127.0.0.1"
FIRST_TRACKER_PORT = 9190
_EMULATOR_BYTES = 1 << 30
"""Of QEMU itself: its translations, and what it maps for the guest."""
_END_SECS = 3.0
_SECRETS = ("OPENAI_API_KEY",)


class TrackerProcess:
    """A tracker that ends with this process."""

    def __init__(self, port: int = FIRST_TRACKER_PORT) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kope_tvm.device.tracker_process", LOCAL, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment({"PYTHONPATH": os.pathsep.join(sys.path)}),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if not said:
            self.end()
            raise KopeError(
                f"no tracker could be started on {LOCAL}, ports from {port} up; see its message"
            )
        self.port = int(said)

    def end(self) -> None:
        """It has gone when this returns."""
        _end(self._process)


class ServerProcess:
    """A board's server under the emulator; ends with this process."""

    def __init__(
        self,
        emulator: Emulator,
        command: Sequence[str],
        server: Path,
        arguments: Sequence[str],
        *,
        memory_bytes: int,
        log: Path | None,
    ) -> None:
        stderr = log.open("ab") if log else None
        self._process = subprocess.Popen(
            [*command, str(server), *arguments, "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=_environment(emulator.environment()),
            start_new_session=True,
        )
        if stderr:
            stderr.close()
        # The emulator passes no limit of memory on to the kernel: this one holds for its sessions.
        limit = _EMULATOR_BYTES + memory_bytes
        resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (limit, limit))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """As when a board loses its power; sessions end with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """It and its sessions have gone when this returns."""
        _end(self._process)
        self.kill()


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(timeout=_END_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return {**env, **more}
