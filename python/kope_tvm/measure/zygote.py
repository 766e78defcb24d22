# SPDX-License-Identifier: Apache-2.0
"""A process that has imported TVM and forks a child per candidate, in milliseconds.

It runs no candidate, starts no thread and compiles nothing, so that forking it is safe. It kills
its children and ends when the tuner's end of the control socket closes; they die with it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

from kope_tvm.measure.forked import end_with
from kope_tvm.measure.job import MAX_PACKET_BYTES, decode_job

_POLL_SECS = 1.0


class Zygote:
    """The loop that forks, kills and reaps on the tuner's word."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pid, self._tuner = os.getpid(), os.getppid()
        self._numbers: dict[int, int] = {}
        self._wakeup, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until the tuner has gone."""
        self._tell(ready=True, threads=len(list(Path("/proc/self/task").iterdir())))
        try:
            while os.getppid() == self._tuner and self._step():
                pass
        finally:
            for pid in self._numbers:
                _kill_group(pid)

    def _step(self) -> bool:
        control_fd = self._control.fileno()
        ready, _, _ = select.select([control_fd, self._wakeup], [], [], _POLL_SECS)
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)
        self._reap()
        return self._obey() if control_fd in ready else True

    def _tell(self, **event: int) -> None:
        self._control.send(json.dumps(event).encode())

    def _reap(self) -> None:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while self._numbers:
            ended = os.waitid(os.P_ALL, 0, options)
            if ended is None:
                return
            # Its group first: while it is unreaped, no other group can have its id.
            _kill_group(ended.si_pid)
            pid, status = os.waitpid(ended.si_pid, 0)
            number = self._numbers.pop(pid, None)
            if number is not None:
                self._tell(exited=number, status=os.waitstatus_to_exitcode(status))

    def _obey(self) -> bool:
        packet, fds, _, _ = socket.recv_fds(self._control, MAX_PACKET_BYTES, 4)
        if not packet:
            return False
        order, _, body = packet.partition(b"\n")
        verb, number = order.split()
        if verb == b"fork":
            self._fork(int(number), body, fds)
        else:
            for pid in [pid for pid, child in self._numbers.items() if child == int(number)]:
                _kill_group(pid)
        return True

    def _fork(self, number: int, job: bytes, fds: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_child(job, fds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        self._numbers[pid] = number
        for fd in fds:
            os.close(fd)
        self._tell(forked=number, pid=pid)

    def _become_child(self, job: bytes, fds: list[int]) -> None:
        status = 1
        try:
            end_with(self._pid)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            self._control.close()
            _work(job, fds)
            status = 0
        finally:
            # No destructors: a candidate may have broken what they tidy up.
            os._exit(status)


def _work(packet: bytes, fds: list[int]) -> None:
    from kope_tvm.measure.worker import answer_and_close

    sock_fd, stderr_fd, module_fd, image_fd = (*fds, -1)[:4]
    os.dup2(stderr_fd, 1)
    os.dup2(stderr_fd, 2)
    os.close(stderr_fd)
    job = decode_job(packet)
    _limit(job.memory_bytes)
    answer_and_close(socket.socket(fileno=sock_fd), job, module_fd, image_fd)


def _limit(memory_bytes: int) -> None:
    """No core files, and no more memory than TVM itself has plus the candidate's share."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    status = Path("/proc/self/status").read_text()
    used_kib = int(status.partition("VmData:")[2].split(maxsplit=1)[0])
    limit = used_kib * 1024 + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    """Only so that Python writes to the wakeup pipe."""


def main(control_fd: int) -> None:
    """Import what children need, then serve."""
    import kope_tvm.measure.worker  # noqa: F401

    gc.collect()
    gc.freeze()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Zygote(socket.socket(fileno=control_fd)).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
