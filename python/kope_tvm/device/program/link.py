# SPDX-License-Identifier: Apache-2.0
"""Links a compiled function and its arguments into an executable for RISC-V."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kope_tvm.errors import KopeError

Array = npt.NDArray[Any]

COMPILER = "riscv64-linux-gnu-gcc"
_NM = "riscv64-linux-gnu-nm"
DEBIAN_PACKAGE = "gcc-riscv64-linux-gnu"
ENTRY = "__tvm_ffi_main"
_FOLDER = Path(__file__).parent
_ARGUMENT_BYTES, _HEADER_BYTES, _MAX_DIMS = 13 * 8, 4 * 8, 6
_TENSOR = 7
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's codes of NumPy's kinds."""


@dataclass(frozen=True)
class Program:
    """What to run: an object that TVM compiled, its arguments, and how often."""

    object_bytes: bytes
    arguments: tuple[Array, ...]
    written: tuple[bool, ...]
    """Which arguments are outputs; they come back, in this order."""
    num_cores: int = 1
    """Tasks of a parallel loop; they run one after another."""
    num_warm: int = 0
    num_timed: int = 1
    entry: str = ENTRY

    def outputs(self, written: bytes) -> tuple[Array, ...]:
        """The arrays in what the program wrote; KopeError where it stopped short."""
        arrays = [each for each, is_out in zip(self.arguments, self.written, strict=True) if is_out]
        if len(written) != sum(each.nbytes for each in arrays):
            raise KopeError(f"the program wrote {len(written)} bytes, expected all of its outputs")
        found, position = [], 0
        for each in arrays:
            flat = np.frombuffer(written, each.dtype, each.size, position)
            found.append(flat.reshape(each.shape))
            position += each.nbytes
        return tuple(found)


def link(program: Program, folder: Path, *, is_bare: bool = False) -> Path:
    """Writes `program` into the folder: for Linux, or for a bare machine such as Spike's."""
    made, image = folder / "program", folder / "image"
    image.write_bytes(_image(program))
    (folder / "function.o").write_bytes(program.object_bytes)
    command = [_compiler(), "-O2", "-static", "-ffreestanding", "-mcmodel=medany"]
    command += [f"-DENTRY={program.entry}", f'-DIMAGE="{image}"', "-o", str(made)]
    command += [str(_FOLDER / name) for name in ("run.c", "image.S")]
    if is_bare:
        layout = f"-Wl,-T,{_FOLDER / 'bare.ld'}"
        command += [str(_FOLDER / "platform_bare.c"), "-nostartfiles", layout]
    else:
        command += [str(_FOLDER / "platform_linux.c")]
    command += [str(folder / "function.o"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KopeError(f"cannot link the function for RISC-V: {_last_line(done.stderr)}")
    return made


def symbol_address(made: Path, name: str) -> int:
    """Where a symbol of a linked program lies."""
    listing = subprocess.run([_NM, str(made)], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        address, _, symbol = line.split(maxsplit=2) if line[0] != " " else ("", "", "")
        if symbol == name:
            return int(address, 16)
    raise KopeError(f"{made.name} has no symbol {name}")


def _image(program: Program) -> bytes:
    if len(program.arguments) > 32:
        raise KopeError(f"{len(program.arguments)} arguments; expected at most 32")
    numbers = (len(program.arguments), program.num_cores, program.num_warm, program.num_timed)
    position = _HEADER_BYTES + _ARGUMENT_BYTES * len(program.arguments)
    head, data = [struct.pack("<4q", *numbers)], bytearray()
    for array, is_written in zip(program.arguments, program.written, strict=True):
        data += bytes(-(position + len(data)) % 64)
        head.append(_argument(array, position + len(data), is_written=is_written))
        data += np.ascontiguousarray(array).tobytes()
    return b"".join(head) + bytes(data)


def _argument(array: Array, position: int, *, is_written: bool) -> bytes:
    if array.ndim > _MAX_DIMS or array.dtype.kind not in _CODES:
        raise KopeError(f"cannot pass {array.dtype}{list(array.shape)}; expected plain numbers")
    shape = (*array.shape, *(0,) * (_MAX_DIMS - array.ndim))
    code, bits = _CODES[array.dtype.kind], array.dtype.itemsize * 8
    facts = (_TENSOR, code, bits, array.ndim, is_written, array.nbytes, *shape, position)
    return struct.pack("<13q", *facts)


@lru_cache(maxsize=1)
def _compiler() -> str:
    found = shutil.which(COMPILER)
    if found is None:
        raise KopeError(f"{COMPILER} is not installed; apt-get install {DEBIAN_PACKAGE}")
    return found


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")
