# SPDX-License-Identifier: Apache-2.0
"""A board without hardware that tells time: the emulated one, counted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.device.emulate import EmulatedBoard, Options, emulated_board
from kope_tvm.device.place import Place
from kope_tvm.device.simulate.calibration import Weights, mark_of
from kope_tvm.device.simulate.counted import Counted, read
from kope_tvm.device.simulate.counter import counting
from kope_tvm.device.simulate.timer import timer_library
from kope_tvm.target import TargetSpec


@dataclass(frozen=True)
class SimulatedBoard:
    """One that is up; whatever is measured at `place` is simulated, as `mark` says."""

    emulated: EmulatedBoard
    regions_dir: Path
    mark: str

    @property
    def place(self) -> Place:
        return self.emulated.place

    def counted(self) -> tuple[Counted, ...]:
        """What was counted for each repeat of each measurement so far, the last one last.

        All calls of one repeat together: measure with `number=1`.
        """
        return read(self.regions_dir, self.mark)


@contextmanager
def simulated_board(
    spec: TargetSpec,
    *,
    tracker: tuple[str, int] | None = None,
    binary: Path | None = None,
    log: Path | None = None,
    weights: Weights | None = None,
) -> Iterator[SimulatedBoard]:
    """A running board of this target whose `time_evaluator` returns simulated seconds.

    Its times are the same at every repeat and after every start; `min_repeat_ms` above 0 asks for
    that much simulated time, which takes long. `weights` are otherwise those of the target's
    calibration.
    """
    with tempfile.TemporaryDirectory(prefix="kope-") as folder:
        regions_dir = Path(folder)
        options = Options(
            emulator=counting(spec, regions_dir, weights=weights),
            server=("--timer", str(timer_library())),
            log=log,
        )
        with emulated_board(spec, options, tracker=tracker, binary=binary) as board:
            yield SimulatedBoard(board, regions_dir, mark_of(spec))
