# SPDX-License-Identifier: Apache-2.0
"""A process that holds one contender and times it when it is its turn.

`python -m kope_tvm.bench.contender FILE TARGET` answers each line on stdin with the seconds of one
call on stdout. FILE is a scheduled module (.json), a compiled model (.so) or a model for ONNX
Runtime (.onnx). A process each keeps one contender's spinning threads off another's time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from kope_tvm.errors import KopeError

NUM_TURNS = 21
PAUSE_SECS = 0.03
"""Between turns, so that a peer's spinning threads are asleep when the next one starts."""

SLOT_SECS = 0.03
"""A turn runs the function for at least this long."""


def in_turns(
    files: Mapping[str, Path], target: str, num_threads: int
) -> dict[str, tuple[float, ...]]:
    """Seconds of one call by contender, one value a turn; turns of one index follow one another."""
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(Contender(name, file, target, num_threads))
            for name, file in files.items()
        ]
        turns: dict[str, list[float]] = {one.name: [] for one in contenders}
        for _ in range(NUM_TURNS):
            for one in contenders:
                time.sleep(PAUSE_SECS)
                turns[one.name].append(one.turn())
    return {name: tuple(values) for name, values in turns.items()}


class Contender:
    """The parent's end of such a process."""

    def __init__(self, name: str, file: Path, target: str, num_threads: int) -> None:
        self.name = name
        environment = dict(os.environ, TVM_NUM_THREADS=str(num_threads), OPENBLAS_NUM_THREADS="1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kope_tvm.bench.contender", str(file), target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.turn()

    def turn(self) -> float:
        """Seconds of one call, the mean of a slot."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait()
        answer = self._process.stdout.readline()
        if not answer:
            raise KopeError(
                f"contender {self.name!r} ended with exit code {self._process.wait()}; "
                "what it said is above"
            )
        return float(answer)

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate()


def _serve(call: Callable[[int], float]) -> None:
    number = 1
    while (secs := call(number)) * number < SLOT_SECS and number < 1 << 20:
        number = max(number * 2, int(SLOT_SECS / max(secs, 1e-9)))
    # TVM binds its workers, not the caller: on a worker's core both would wait for each other.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for _ in sys.stdin:
        sys.stdout.write(f"{call(number)!r}\n")
        sys.stdout.flush()


def _module_call(file: Path, target: str) -> Callable[[int], float]:
    import tvm

    from kope_tvm.bench.inputs import random_arguments
    from kope_tvm.machine import load_target, tvm_target

    mod = tvm.ir.load_json(file.read_text(encoding="utf-8"))
    library = tvm.compile(mod, target=tvm_target(load_target(target))).jit()
    arguments = [tvm.runtime.tensor(one) for one in random_arguments(mod)]

    def call(number: int) -> float:
        timer = library.time_evaluator("main", tvm.cpu(), number=number, repeat=1)
        return float(timer(*arguments).mean)

    return call


def _artifact_call(file: Path, target: str) -> Callable[[int], float]:
    from kope_tvm.artifact import Artifact
    from kope_tvm.comparison import random_inputs

    artifact = Artifact.load(file)
    inputs = random_inputs(artifact.inputs, seed=0)
    return lambda number: artifact.time(inputs, number=number, repeat=1)[0]


def _onnxruntime_call(file: Path, target: str) -> Callable[[int], float]:
    from kope_tvm.onnx_reference import OnnxReference

    reference = OnnxReference(file, int(os.environ["TVM_NUM_THREADS"]), optimised=True)
    inputs = reference.random_inputs(seed=0)
    return lambda number: reference.time(inputs, number=number, repeat=1)[0]


_CALLS = {".json": _module_call, ".so": _artifact_call, ".onnx": _onnxruntime_call}


def main() -> None:
    """Build the contender named on the command line and serve turns."""
    file, target = Path(sys.argv[1]), sys.argv[2]
    _serve(_CALLS[file.suffix](file, target))


if __name__ == "__main__":
    main()
