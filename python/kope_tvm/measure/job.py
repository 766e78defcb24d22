# SPDX-License-Identifier: Apache-2.0
"""What the tuner asks of a measuring child, as one packet; the module travels in a memory file.

Answers come from a process that ran a candidate's native code: they are JSON, read with suspicion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from kope_tvm.measure.config import MeasureConfig
from kope_tvm.outcome import Measurement

CHECK = b"check"
TIME = b"time"
"""The words a child waits for: it has built, it has checked."""
MAX_PACKET_BYTES = 1 << 17


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
class Job:
    """One module to build and time on one target."""

    target: Mapping[str, object]
    config: MeasureConfig
    memory_bytes: int
    is_reference: bool = False
    """The untuned function: it writes the image that candidates are compared with."""
    arguments: tuple[Argument, ...] = ()
    """Of the image's tensors; empty where the candidate is not checked."""
    hopeless_secs: float | None = None
    """A first call that takes longer is the measurement."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def decode_job(packet: bytes) -> Job:
    """The job that `Job.encode` wrote."""
    fields: dict[str, Any] = json.loads(packet)
    fields["config"] = MeasureConfig(**fields["config"])
    fields["arguments"] = decode_arguments(fields["arguments"])
    return Job(**fields)


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
    is_built: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def decode_answer(packet: bytes) -> Answer:
    """The child's answer; ValueError, KeyError or TypeError where the packet is none."""
    fields = json.loads(packet)
    row = dict(fields["measurement"])
    row["run_secs"] = tuple(float(secs) for secs in row["run_secs"])
    for name in ("build_secs", "device_secs", "max_error"):
        row[name] = float(row[name])
    arguments = decode_arguments(fields["arguments"])
    return Answer(Measurement(**row), arguments, bool(fields["is_built"]))
