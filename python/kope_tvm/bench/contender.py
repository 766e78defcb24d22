# SPDX-License-Identifier: Apache-2.0
"""A process that holds one contender and times it when it is its turn.

`python -m kope_tvm.bench.contender FILE TARGET [INPUTS]` says a line when it is built, and then
answers each line on stdin with the seconds of one call. FILE is a scheduled module (.json), a
compiled model (.so) or a model for ONNX Runtime (.onnx); INPUTS is an .npz of arrays by name,
without which they are random. A process each keeps one contender's spinning threads off another's
time.
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
from typing import TYPE_CHECKING, Any

from kope_tvm.cores import stay_off_the_workers_cores
from kope_tvm.errors import KopeError

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

NUM_TURNS = 21
PAUSES_SECS = {".onnx": 0.1}
"""After a turn, by the kind of file, until its spinning threads are asleep.

0.03 s after ONNX Runtime's the next contender was still a quarter slower than 0.1 s after it.
"""
PAUSE_SECS = 0.03
"""After any other turn."""

SLOT_SECS = 0.03
"""A turn runs the function for at least this long."""

SLOW_SECS = 0.1
"""Of a contender with longer calls, mostly the untuned function, one turn stands for `SLOW_TURNS`:
nobody asks whether it is 300 or 310 times as slow.
"""
SLOW_TURNS = 5


def in_turns(
    files: Mapping[str, Path],
    target: str,
    num_threads: int,
    inputs: Path | None = None,
    num_turns: int = NUM_TURNS,
) -> dict[str, tuple[float, ...]]:
    """Seconds of one call by contender, one value a turn; turns of one index follow one another.

    Those with one and the same program share its turns, and so do turns of one that is slow. Raises
    KopeError where one does not run.
    """
    first = _first_of_each(files)
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(Contender(name, file, target, num_threads, inputs))
            for name, file in files.items()
            if first[name] == name
        ]
        for one in contenders:
            one.wait()
        for one in contenders:  # The first turn finds out how many calls fill a slot.
            one.turn()
        turns: dict[str, list[float]] = {one.name: [] for one in contenders}
        for number in range(num_turns):
            for one in contenders:
                if one.last_secs < SLOW_SECS or number % SLOW_TURNS == 0:
                    one.turn()
                turns[one.name].append(one.last_secs)
    return {name: tuple(turns[first[name]]) for name in files}


def _first_of_each(files: Mapping[str, Path]) -> dict[str, str]:
    """By contender, the first one whose file has the same contents."""
    by_contents: dict[tuple[str, bytes], str] = {}
    return {
        name: by_contents.setdefault((file.suffix, file.read_bytes()), name)
        for name, file in files.items()
    }


class Contender:
    """The parent's end of such a process."""

    def __init__(
        self,
        name: str,
        file: Path,
        target: str,
        num_threads: int,
        inputs: Path | None = None,
    ) -> None:
        """Starts building; `wait` says when it is done."""
        self.name = name
        self.last_secs = 0.0
        """Of its last turn."""
        self._pause_secs = PAUSES_SECS.get(file.suffix, PAUSE_SECS)
        arguments = [str(file), target, *([str(inputs)] if inputs else [])]
        environment = dict(os.environ, TVM_NUM_THREADS=str(num_threads), OPENBLAS_NUM_THREADS="1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kope_tvm.bench.contender", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def wait(self) -> None:
        """Raises KopeError where it could not be built or does not run."""
        self._answer()

    def turn(self) -> None:
        """Note the seconds of one call, a slot's mean; its threads sleep when this returns."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait()
        self.last_secs = float(self._answer())
        time.sleep(self._pause_secs)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise KopeError(
                f"contender {self.name!r} ended with exit code {self._process.wait()}; "
                "what it said is above"
            )
        return answer

    def close(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):
            self._process.communicate()

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _serve(call: Callable[[int], float]) -> None:
    call(1)
    sys.stdout.write("built\n")
    sys.stdout.flush()
    number = 0
    for _ in sys.stdin:
        number = number or _calls_of_a_slot(call)
        sys.stdout.write(f"{call(number)!r}\n")
        sys.stdout.flush()


def _calls_of_a_slot(call: Callable[[int], float]) -> int:
    number = 1
    while (secs := call(number)) * number < SLOT_SECS and number < 1 << 20:
        number = max(number * 2, int(SLOT_SECS / max(secs, 1e-9)))
    stay_off_the_workers_cores()
    return number


def _module_call(file: Path, target: str, inputs: Arrays | None) -> Callable[[int], float]:
    import tvm

    from kope_tvm.bench.inputs import module_arguments
    from kope_tvm.llvm_build import build
    from kope_tvm.machine import load_target, tvm_target

    mod = tvm.ir.load_json(file.read_text(encoding="utf-8"))
    library = build(mod, tvm_target(load_target(target))).jit()
    arguments = [tvm.runtime.tensor(one) for one in module_arguments(mod, inputs)]

    main = library["main"]

    def call(number: int) -> float:
        if number == 1:  # The evaluator would call once more before it starts.
            started = time.perf_counter()
            main(*arguments)
            return time.perf_counter() - started
        timer = library.time_evaluator("main", tvm.cpu(), number=number, repeat=1)
        return float(timer(*arguments).mean)

    return call


def _artifact_call(file: Path, target: str, inputs: Arrays | None) -> Callable[[int], float]:
    from kope_tvm.artifact import Artifact
    from kope_tvm.comparison import random_inputs

    artifact = Artifact.load(file)
    feed = random_inputs(artifact.inputs, seed=0) if inputs is None else inputs
    return lambda number: artifact.time(feed, number=number, repeat=1)[0]


def _onnxruntime_call(file: Path, target: str, inputs: Arrays | None) -> Callable[[int], float]:
    from kope_tvm.onnx_reference import OnnxReference

    reference = OnnxReference(file, int(os.environ["TVM_NUM_THREADS"]), optimised=True)
    given = reference.random_inputs(seed=0) if inputs is None else inputs
    feed = {name: given[name] for name in reference.input_names}
    return lambda number: reference.time(feed, number=number, repeat=1)[0]


_CALLS = {".json": _module_call, ".so": _artifact_call, ".onnx": _onnxruntime_call}


def main() -> None:
    """Build the contender named on the command line and serve turns."""
    import numpy as np

    file, target = Path(sys.argv[1]), sys.argv[2]
    inputs = dict(np.load(sys.argv[3])) if len(sys.argv) > 3 else None
    _serve(_CALLS[file.suffix](file, target, inputs))


if __name__ == "__main__":
    main()
