# SPDX-License-Identifier: Apache-2.0
"""What the tuner asks of a measuring child, as one packet; the module travels in a memory file.

Answers come from a process that ran a candidate's native code: they are JSON, read with suspicion.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.policy import Allowed
from kope_tvm.outcome import Measurement

CHECK = b"check"
CHECK_FORKED = b"forks"
"""Likewise, but in a fork, so that the code it built is there for another turn."""
TIME = b"time"
"""The words a child waits for: it has built, it has checked. With the second come the time below
which it is checked on every case, and the best's.
"""
MAX_WORD_BYTES = 64
MAX_PACKET_BYTES = 1 << 17


def await_time(sock: socket.socket) -> tuple[float, float] | None:
    """Wait until the candidate before this one has left the machine.

    The time below which every case is checked, and the best's; None where the tuner has gone.
    """
    word, *times = sock.recv(MAX_WORD_BYTES).split() or [b""]
    return (float(times[0]), float(times[1])) if word == TIME else None


class Use(str, Enum):
    """What a function does with a parameter."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    """Read before it is written: its first contents matter."""
    SCALAR = "scalar"


@dataclass(frozen=True)
class Argument:
    """One parameter of the function under test."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    use: Use
    index_limit: int = 0
    """Values lie in [0, index_limit) because they address another buffer; 0 where they do not."""

    @property
    def written(self) -> bool:
        return self.use in (Use.WRITE, Use.UPDATE)

    @property
    def filled(self) -> bool:
        return self.use in (Use.READ, Use.UPDATE)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Case:
    """One set of inputs, and how far each output may be from what is expected of it."""

    name: str
    """`uniform 0`: the distribution and the seed."""
    allowed: tuple[Allowed | None, ...]
    """One a parameter; None of those that are not written."""
    has_other: tuple[bool, ...]
    """Whether the untuned function's own output is right too."""

    @property
    def seed(self) -> int:
        return int(self.name.rpartition(" ")[2])


@dataclass(frozen=True)
class Board:
    """Where a job is measured, if not on this machine."""

    host: str
    port: int
    key: str
    """Of the tracker, and of the boards there."""
    linker: str
    """Makes a library of objects for the board."""
    folder: str
    """On this machine, for files in between."""


@dataclass(frozen=True)
class Job:
    """One module to build and time on one target."""

    target: Mapping[str, object]
    config: MeasureConfig
    memory_bytes: int
    is_reference: bool = False
    """The untuned function: it writes the image that candidates are compared with."""
    arguments: tuple[Argument, ...] = ()
    """Of the image's tensors; empty where the candidate is not checked."""
    cases: tuple[Case, ...] = ()
    """Of the image, in its order."""
    hopeless_secs: float | None = None
    """A first call that takes longer is the measurement."""
    place: Board | None = None
    """None: this machine."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def decode_job(packet: bytes) -> Job:
    """The job that `Job.encode` wrote."""
    fields: dict[str, Any] = json.loads(packet)
    fields["config"] = MeasureConfig(**fields["config"])
    fields["arguments"] = decode_arguments(fields["arguments"])
    fields["cases"] = decode_cases(fields["cases"])
    fields["place"] = Board(**fields["place"]) if fields["place"] else None
    return Job(**fields)


def decode_cases(rows: list[dict[str, Any]]) -> tuple[Case, ...]:
    """The cases whose `asdict` went through JSON."""
    return tuple(
        Case(
            str(row["name"]),
            tuple(Allowed(**each) if each else None for each in row["allowed"]),
            tuple(bool(each) for each in row["has_other"]),
        )
        for row in rows
    )


def decode_arguments(rows: list[dict[str, Any]]) -> tuple[Argument, ...]:
    """The arguments whose `asdict` went through JSON."""
    return tuple(
        Argument(
            str(row["name"]),
            str(row["dtype"]),
            tuple(int(extent) for extent in row["shape"]),
            Use(row["use"]),
            int(row["index_limit"]),
        )
        for row in rows
    )


@dataclass(frozen=True)
class Answer:
    """What a child says: `built`, or the end of its candidate."""

    measurement: Measurement
    arguments: tuple[Argument, ...] = ()
    """Of a reference: the tensors in its image."""
    cases: tuple[Case, ...] = ()
    notice: str = ""
    """What is amiss with a reference's checks."""
    is_built: bool = False
    has_board: bool = False
    """Not the end: the board it waited for is now its own."""
    is_timed: bool = False
    """Not the end either: what is left to do takes little of the device."""
    is_checked: bool = False
    """Not the end: the machine is to be its own from here."""
    is_parked: bool = False
    """The fork that measured has gone: another may."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


_FLAGS = ("is_built", "has_board", "is_timed", "is_checked", "is_parked")


def decode_answer(packet: bytes) -> Answer:
    """The child's answer; ValueError, KeyError or TypeError where the packet is none."""
    fields = json.loads(packet)
    row = dict(fields["measurement"])
    row["run_secs"] = tuple(float(secs) for secs in row["run_secs"])
    for name in ("build_secs", "device_secs", "check_secs", "max_error"):
        row[name] = float(row[name])
    arguments = decode_arguments(fields["arguments"])
    row["is_proven"] = bool(row["is_proven"])
    cases = decode_cases(fields["cases"])
    flags = (bool(fields[name]) for name in _FLAGS)
    return Answer(Measurement(**row), arguments, cases, str(fields["notice"]), *flags)
