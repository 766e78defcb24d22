# SPDX-License-Identifier: Apache-2.0
"""Where a target's candidates are measured: here, on a board, or on a simulated one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kope_tvm.device.place import HOST, PORT, Place, place_of
from kope_tvm.device.simulate.calibration import MARK, mark_of
from kope_tvm.errors import KopeError
from kope_tvm.target import TargetSpec
from kope_tvm.target_kind import is_on_host

SIMULATED = MARK
"""The mark of whatever no clock has measured, where nothing is known of a calibration."""
_LIMIT_SECS = 60.0


@dataclass(frozen=True)
class Met:
    """Boards that answer at a place."""

    place: Place
    mark: str = ""
    """What stands in every record of a time from there; empty for a clock's."""


@contextmanager
def met_board(
    spec: TargetSpec,
    say: Callable[[str], None] = lambda _text: None,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Met | None]:
    """A board of this target, asked who it is; None where it is this machine, or a GPU in it.

    Where no tracker is named in TVM_TRACKER_HOST and TVM_TRACKER_PORT, a simulated board is
    started, and `say` is told. Raises KopeError where no board answers, or one has no time.
    """
    if not is_on_host(spec.tvm_target.get("kind")):
        _find_gpu(spec)
        yield None
        return
    if not spec.rpc_key:
        yield None
        return
    place = place_of(spec, environment=environment)
    if place is not None:
        met = _asked(place)
        say(f"measuring on {place}{', ' + met.mark if met.mark else ''}")
        yield met
        return
    say(
        f"no tracker is set ({HOST}, {PORT}): measuring on a board {spec.rpc_key} that is "
        f"{mark_of(spec)}"
    )
    from kope_tvm.device.build import cache_dir
    from kope_tvm.device.simulate.board import simulated_board

    log = cache_dir() / f"{spec.rpc_key}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with simulated_board(spec, log=log) as board:
        yield Met(board.place, board.mark)


def _asked(place: Place) -> Met:
    from kope_tvm.device.board import open_session

    info = open_session(place, _LIMIT_SECS).info
    if not info.tells_time:
        raise KopeError(
            f"{place} is emulated: wall time means nothing there; unset {HOST} for a simulated "
            "board, or start one that has its --timer"
        )
    return Met(place, SIMULATED if info.timer else "")


def _find_gpu(spec: TargetSpec) -> None:
    import tvm

    kind = str(spec.tvm_target["kind"])
    if not tvm.device(kind).exist:
        raise KopeError(
            f"target {spec.name!r} is measured on a {kind} device, and this machine shows none: "
            "run this on the machine that has it (nvidia-smi should list it); "
            "kope compile needs none"
        )
