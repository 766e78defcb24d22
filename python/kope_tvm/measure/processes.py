# SPDX-License-Identifier: Apache-2.0
"""The tuner's end of the zygote and of its children."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque

from kope_tvm.errors import KopeError
from kope_tvm.measure.job import MAX_PACKET_BYTES, Answer, Job, decode_answer
from kope_tvm.measure.patience import Patience

START_SECS = 120.0
# apache-tvm-ffi imports torch where it is installed: that takes seconds, and starts the GPU's
# driver, which no fork survives.
_BOOTSTRAP = (
    "import sys; sys.path[:] = sys.argv[2:]; sys.modules['torch'] = None; "
    "from kope_tvm.measure.zygote import main; main(int(sys.argv[1]))"
)
_SECRETS = ("OPENAI_API_KEY",)


class ZygoteDiedError(KopeError):
    """The forking process has gone, and every child with it."""


class Worker:
    """One child and its candidate."""

    def __init__(self, number: int, sock: socket.socket, stderr_fd: int) -> None:
        self.number = number
        self.pid = 0
        self.exit_code: int | None = None
        self.answers: deque[Answer | None] = deque()
        """None for a packet that is no answer."""
        self.patience: Patience | None = None
        self.timed_out = False
        self.awaits_board = False
        """Its time starts when it has one."""
        self.has_checked = False
        """It waits for the machine to be its own."""
        self.has_hung_up = False
        """Nothing more comes from it; it ends."""
        self._sock = sock
        self._stderr_fd = stderr_fd

    @property
    def has_ended(self) -> bool:
        """It has, or has said its last."""
        return self.exit_code is not None or bool(self.answers)

    def fileno(self) -> int:
        return self._sock.fileno()

    def receive(self) -> bool:
        """Take one packet; False at the end."""
        try:
            packet = self._sock.recv(MAX_PACKET_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        if not packet:
            return False
        try:
            self.answers.append(decode_answer(packet))
        except (ValueError, KeyError, TypeError):
            self.answers.append(None)
        return True

    def say(self, word: bytes) -> None:
        """Let it check, or time."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.send(word)

    def last_words(self) -> str:
        """The last line it printed, an error before others."""
        return _last_line(self._stderr_fd)

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._sock.close()
            os.close(self._stderr_fd)


class ZygoteClient:
    """One zygote process; `poll` moves what it and its children say into the workers."""

    def __init__(self, num_cores: int, log: logging.Logger) -> None:
        self._log = log
        self._workers: dict[int, Worker] = {}
        self._count = 0
        self._is_ready = False
        self._started = time.monotonic()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr_fd, stderr_fd = _bounded_pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP, str(theirs.fileno()), *sys.path],
                pass_fds=[theirs.fileno()],
                env=_environment(num_cores),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr_fd,
                start_new_session=True,
            )
        os.close(stderr_fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def was_ready(self) -> bool:
        """Whether it ever came to serving."""
        return self._is_ready

    def fork(self, job: Job, module: bytes, image_fd: int | None) -> Worker:
        """A child that builds `module` as soon as it exists."""
        self._count += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stderr_fd, their_stderr_fd = _bounded_pipe()
        module_fd = _memory_file(module)
        fds = [theirs.fileno(), their_stderr_fd, module_fd]
        fds += [] if image_fd is None else [image_fd]
        worker = Worker(self._count, ours, stderr_fd)
        worker.awaits_board = job.place is not None
        try:
            packet = b"fork %d\n" % self._count + job.encode()
            socket.send_fds(self._control, [packet], fds)
        except (BrokenPipeError, ConnectionResetError) as error:
            worker.close()
            raise self._death() from error
        finally:
            theirs.close()
            os.close(their_stderr_fd)
            os.close(module_fd)
        self._workers[worker.number] = worker
        return worker

    def kill(self, worker: Worker) -> None:
        """End the child's whole process group; `poll` tells when it has gone."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(b"kill %d\n" % worker.number)

    def forget(self, worker: Worker) -> None:
        """Stop listening to it, and end it if it lives."""
        if self._workers.pop(worker.number, None) and worker.exit_code is None:
            self.kill(worker)
        worker.close()

    def poll(self, timeout_secs: float) -> None:
        """Wait for anything to happen, and note it in the workers it happened to."""
        poller = select.poll()
        talking = [each for each in self._workers.values() if not each.has_hung_up]
        by_fd = {worker.fileno(): worker for worker in talking}
        for fd in (self._control.fileno(), *by_fd):
            poller.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poller.poll(timeout_secs * 1000)}
        for fd in ready & by_fd.keys():
            by_fd[fd].has_hung_up = not by_fd[fd].receive()
        if self._control.fileno() in ready:
            self._listen()
        elif not self._is_ready and time.monotonic() - self._started > START_SECS:
            raise self._death(f"it was not ready after {START_SECS:.0f} s")

    def _listen(self) -> None:
        try:
            packet = self._control.recv(MAX_PACKET_BYTES)
        except ConnectionResetError:
            packet = b""
        if not packet:
            raise self._death()
        event = json.loads(packet)
        if "ready" in event:
            self._is_ready = True
            if event["threads"] > 1:
                self._log.warning("the measuring process has %d threads", event["threads"])
        elif "forked" in event:
            self._note_fork(self._workers.get(event["forked"]), event["pid"])
        else:
            self._note_exit(self._workers.get(event["exited"]), event["status"])

    def _note_fork(self, worker: Worker | None, pid: int) -> None:
        if worker:
            worker.pid = pid

    def _note_exit(self, worker: Worker | None, status: int) -> None:
        if worker is None:
            return
        while select.select([worker], [], [], 0)[0] and worker.receive():
            pass
        worker.exit_code = status
        # Its socket would report its end for ever.
        del self._workers[worker.number]

    def _death(self, why: str = "") -> ZygoteDiedError:
        self._end()
        why = why or _last_line(self._stderr_fd)
        self.close()
        return ZygoteDiedError(
            f"the measuring process ended with status {self._process.returncode}: "
            f"{why or 'it said nothing'}"
        )

    def close(self) -> None:
        """End it and all its children; they are gone when this returns."""
        self._end()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        if self._stderr_fd >= 0:
            os.close(self._stderr_fd)
            self._stderr_fd = -1

    def _end(self) -> None:
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


def _environment(num_cores: int) -> dict[str, str]:
    """One thread until a kernel runs; no secret for native code to find."""
    env = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return env | one | {"TVM_NUM_THREADS": str(num_cores)}


def _bounded_pipe() -> tuple[int, int]:
    """A pipe that never blocks its writer: what does not fit is lost."""
    return os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)


def _last_line(pipe_fd: int) -> str:
    try:
        text = os.read(pipe_fd, 1 << 16).decode(errors="replace")
    except BlockingIOError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # TVM follows a crash with a backtrace: LLVM's own complaint stands before it.
    telling = [line for line in lines if "error:" in line.lower()] or lines
    return telling[-1][:200] if telling else ""


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("kope-module", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    return fd
