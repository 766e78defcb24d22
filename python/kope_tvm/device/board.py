# SPDX-License-Identifier: Apache-2.0
"""A session with a board's server, opened only where both are of the same TVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import rpc

from kope_tvm.device.place import Place
from kope_tvm.device.tracker import num_registered, requested
from kope_tvm.errors import KopeError, VersionError
from kope_tvm.versions import installed_version

_HELLO = "kope.server.hello"


@dataclass(frozen=True)
class Info:
    """What a server says of itself."""

    key: str
    vlen_bits: int
    """0 without a vector unit."""
    cores: tuple[int, ...]
    pid: int
    """Of this session's process."""
    emulated: bool
    """Its wall time means nothing."""
    timer: str
    """The library that tells its time; empty for the clock."""
    machine: str
    kernel: str

    @property
    def tells_time(self) -> bool:
        """Whether what it measures is a time."""
        return bool(self.timer) or not self.emulated


@dataclass
class Session:
    """One process on the board, held until `close`."""

    place: Place
    info: Info
    remote: Any
    """TVM's session: any of its objects that lives holds the board."""

    def load(self, path: str) -> Any:
        """The remote module of a library for the board; KopeError where the board refuses it."""
        name = path.rpartition("/")[2]
        try:
            self.remote.upload(path, target=name)
            return self.remote.load_module(name)
        except (RuntimeError, ValueError) as error:
            raise KopeError(f"{self.place} refuses {name}: {said(error)}") from error

    def ask(self, function: str, *arguments: str) -> Any:
        """What one of the server's functions answers, out of JSON."""
        try:
            return json.loads(self.remote.get_function(function)(*arguments))
        except RuntimeError as error:
            raise KopeError(f"{self.place}: {said(error)}") from error


def open_session(
    place: Place, limit_secs: float, acquired: Callable[[], None] = lambda: None
) -> Session:
    """Wait for a free board, then hold it for at most `limit_secs`; `acquired` is called between.

    Raises KopeError where no server has the key, and VersionError where it is of another TVM.
    """
    if num_registered(place) == 0:
        raise KopeError(
            f"{place}: no server is registered; start kope-server there (kope device build), or "
            "kope device serve --emulate here"
        )
    host, port, key = requested(place)
    acquired()
    try:
        remote = rpc.connect(host, port, key, session_timeout=limit_secs)
    except (RuntimeError, OSError) as error:
        raise KopeError(f"{place}: lost on the way to {host}:{port}: {said(error)}") from error
    return Session(place, _hello(place, remote), remote)


def said(error: Exception) -> str:
    """The line of a remote error that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if "E_" in line or "Error" in line] or [lines[-1]]
    return telling[-1][:400]


def _hello(place: Place, remote: Any) -> Info:
    ours = installed_version("apache-tvm"), installed_version("apache-tvm-ffi")
    try:
        hello = remote.get_function(_HELLO)
    except (AttributeError, RuntimeError) as error:
        raise KopeError(
            f"{place}: its server is not kope's; build one of this TVM with kope device build"
        ) from error
    try:
        fields = json.loads(hello(*ours))
    except (ValueError, RuntimeError) as error:
        raise VersionError(f"{place}: {said(error)}") from error
    return Info(
        key=str(fields["key"]),
        vlen_bits=int(fields["vlen_bits"]),
        cores=tuple(int(core) for core in fields["cores"]),
        pid=int(fields["pid"]),
        emulated=bool(fields["emulated"]),
        timer=str(fields["timer"]),
        machine=str(fields["machine"]),
        kernel=str(fields["kernel"]),
    )
