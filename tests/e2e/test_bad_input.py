# SPDX-License-Identifier: Apache-2.0
"""Wrong calls: exit code 2, one line that helps, nothing written; a failing disk: exit code 1."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest
from onnx import TensorProto, helper

import kope_tvm

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MATMUL = "op:matmul:m=32,n=32,k=32,dtype=float32"
LIMIT_SECS = 240
_MOUNT = ["mount", "-t", "tmpfs", "-o"]


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def line(self) -> str:
        """The one line of the error."""
        (line,) = [one for one in self.stderr.splitlines() if one.startswith("Error: ")]
        return line


class Shell:
    """A folder to call `kope tune` in, with a memory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work_dir = folder / "work"
        self._environment = {
            **os.environ,
            "KOPE_HOME": str(folder / "home"),
            "PYTHONPATH": str(Path(kope_tvm.__file__).parents[1]),
        }

    def start(
        self,
        model: str,
        *options: str,
        target: str = "host",
        preexec_fn: Callable[[], None] | None = None,
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "kope_tvm.cli", "tune", model, "--target", target),
                *("--trials", "3", "--work-dir", str(self.work_dir), *options),
            ],
            cwd=self.folder, env=self._environment, text=True, preexec_fn=preexec_fn,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def tune(self, model: str, *options: str, target: str = "host") -> Answer:
        process = self.start(model, *options, target=target)
        stdout, stderr = process.communicate(timeout=LIMIT_SECS)
        return Answer(process.returncode, stdout, stderr)

    def refused(self, model: str, *options: str, target: str = "host") -> str:
        """The message of a call that is wrong and leaves no work_dir."""
        answer = self.tune(model, *options, target=target)
        assert answer.code == 2, answer
        assert "Traceback" not in answer.stderr
        assert not self.work_dir.exists()
        return answer.line


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_missing_model_is_named(shell: Shell) -> None:
    assert "nowhere.onnx: no such file" in shell.refused("nowhere.onnx")


def test_a_corrupt_model_is_named(shell: Shell) -> None:
    (shell.folder / "torn.onnx").write_bytes(b"\x08\x07\x12\x04torn\xff\xff")
    assert "torn.onnx" in shell.refused("torn.onnx")


def test_an_unknown_target_is_answered_with_the_known_ones(shell: Shell) -> None:
    line = shell.refused(MATMUL, target="k320")
    assert "k320" in line
    assert "host" in line


def test_an_unknown_operator_is_answered_with_the_known_ones(shell: Shell) -> None:
    line = shell.refused("op:matmull:m=8")
    assert "matmull" in line
    assert "softmax" in line


def test_an_onnx_operator_that_tvm_lacks_is_named_with_its_node(shell: Shell) -> None:
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="layer7", domain="com.example")
    graph = helper.make_graph([node], "graph", edges[:1], edges[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), shell.folder / "odd.onnx")
    answer = shell.tune("odd.onnx")
    assert answer.code == 2, answer
    assert "Frobnicate" in answer.stderr
    assert "layer7" in answer.stderr
    assert not shell.work_dir.exists()


def test_a_work_dir_below_a_file_cannot_be_written(shell: Shell) -> None:
    (shell.folder / "file").write_text("not a folder", encoding="utf-8")
    answer = shell.tune(MATMUL, "--work-dir", "file/work")
    assert answer.code == 2, answer
    assert "'file/work': Not a directory" in answer.line


def test_a_work_dir_of_another_target_is_kept_from_mixing(shell: Shell) -> None:
    assert shell.tune(MATMUL).code == 0
    before = _contents(shell.work_dir)
    other = _host_as(shell.folder / "other.toml", num_cores=1)
    answer = shell.tune(MATMUL, target=str(other))
    assert answer.code == 2, answer
    assert "holds records of" in answer.line
    assert _contents(shell.work_dir) == before


def test_a_locked_memory_is_waited_for(shell: Shell) -> None:
    path = shell.folder / "memory.sqlite"
    with _locked(path):
        process = shell.start(MATMUL, "--memory", str(path))
        time.sleep(6)
        assert process.poll() is None
    _, stderr = process.communicate(timeout=LIMIT_SECS)
    assert process.returncode == 0, stderr


def test_a_damaged_memory_is_set_aside_with_a_notice(shell: Shell) -> None:
    path = shell.folder / "memory.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\xa5" * 5000)
    answer = shell.tune(MATMUL, "--memory", str(path))
    assert answer.code == 0, answer
    assert "was damaged" in answer.stdout
    (aside,) = shell.folder.glob("memory.sqlite.damaged-*")
    assert aside.read_bytes()[16:20] == b"\xa5" * 4


def test_a_full_disk_keeps_what_was_measured(shell: Shell) -> None:
    with _small_disk(shell.work_dir) as (limit, more_room):
        process = shell.start(MATMUL, "--trials", "40", preexec_fn=limit)
        stdout, stderr = process.communicate(timeout=LIMIT_SECS)
        assert process.returncode == 1, (stdout, stderr)
        assert "everything measured before is kept" in stderr
        assert "Traceback" not in stderr
        more_room()
        kept = _journalled(shell.work_dir)
        assert kept
        again = shell.tune(MATMUL, "--trials", str(len(kept) + 1), "--json")
        assert again.code == 0, again
        assert json.loads(again.stdout)["trials"] == 1
        assert _journalled(shell.work_dir)[:-1] == kept
        # One each, and the untuned function.
        assert len(_lines(shell.work_dir / "database_tuning_record.json")) == len(kept) + 2


SCALAR_ARGUMENT = """
from tvm.script import ir as I, tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float32"), n: T.int32, B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + T.Cast("float32", n)
"""
NO_ELEMENTS = """
from tvm.script import ir as I, tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((0, 4), "float32"), B: T.Buffer((0, 4), "float32")):
        for i, j in T.grid(0, 4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.exp(A[vi, vj])
"""


@pytest.mark.parametrize(
    ("script", "reason"),
    [(SCALAR_ARGUMENT, "'n' is a scalar"), (NO_ELEMENTS, "'A' has no elements")],
)
def test_a_module_with_nothing_to_tune_says_why(shell: Shell, script: str, reason: str) -> None:
    (shell.folder / "odd.py").write_text(script, encoding="utf-8")
    line = shell.refused("odd.py")
    assert "nothing to tune" in line
    assert reason in line


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".json"}


def _journalled(work_dir: Path) -> list[str]:
    with closing(sqlite3.connect(work_dir / "experience.sqlite")) as connection:
        rows = connection.execute("SELECT state FROM decision WHERE accepted = 1 ORDER BY id")
        return [state for (state,) in rows]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the memory as another process would that is in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_version (version INT, applied_at REAL)"
        )
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def _host_as(path: Path, num_cores: int) -> Path:
    text = f'[target]\nkind = "llvm"\nmcpu = "native"\nnum-cores = {num_cores}\n'
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def _small_disk(folder: Path) -> Iterator[tuple[Callable[[], None] | None, Callable[[], None]]]:
    """A disk of a megabyte where mounting is allowed, else a limit on the size of files.

    Yields what a process must do to be limited, and what makes room.
    """
    folder.mkdir()
    if subprocess.call([*_MOUNT, "size=1m", "tmpfs", str(folder)], stderr=subprocess.DEVNULL):
        yield _limit_files, lambda: None
        return
    try:
        yield None, lambda: _remounted(folder)
    finally:
        subprocess.check_call(["umount", "--lazy", str(folder)])


def _limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (260_000, 260_000))


def _remounted(folder: Path) -> None:
    subprocess.check_call([*_MOUNT, "remount,size=64m", "tmpfs", str(folder)])


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
