# SPDX-License-Identifier: Apache-2.0
"""A tracker asked in its own protocol.

TVM's client tries a dead tracker for a minute, and does not say when a board was handed out: from
then on a board that is silent costs its client time.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.rpc import base

from kope_tvm.device.place import Place
from kope_tvm.errors import KopeError

_ANSWER_SECS = 5.0
_Server = tuple[str, int, str]
"""Host, port, and the key that lets one client in, once."""


def num_registered(place: Place) -> int:
    """Servers of the place's key, free or not; KopeError where no tracker answers."""
    with _connected(place) as sock:
        _, summary = _asked(place, sock, [base.TrackerCode.SUMMARY])
    return sum(each["key"] == f"server:{place.key}" for each in summary["server_info"])


def requested(place: Place) -> _Server:
    """A server of the place's key that is free, waited for without end."""
    with _connected(place) as sock:
        sock.settimeout(None)
        code, server = _asked(place, sock, [base.TrackerCode.REQUEST, place.key, "", 1])
    if code != base.TrackerCode.SUCCESS:
        raise KopeError(f"{place}: the tracker refuses a request: {server}")
    host, port, key = server
    return str(host), int(port), str(key)


def _asked(place: Place, sock: socket.socket, question: list[Any]) -> Any:
    try:
        base.sendjson(sock, question)
        return base.recvjson(sock)
    except OSError as error:
        raise KopeError(f"{place}: lost the tracker: {error}") from error


@contextmanager
def _connected(place: Place) -> Iterator[socket.socket]:
    try:
        sock = socket.create_connection((place.host, place.port), timeout=_ANSWER_SECS)
    except OSError as error:
        raise KopeError(f"{place}: no tracker at {place.tracker}: {error}") from error
    with sock:
        magic = struct.pack("<i", base.RPC_TRACKER_MAGIC)
        try:
            sock.sendall(magic)
            is_tracker = base.recvall(sock, len(magic)) == magic
        except OSError:
            is_tracker = False
        if not is_tracker:
            raise KopeError(f"{place}: what listens at {place.tracker} is no tracker")
        yield sock
