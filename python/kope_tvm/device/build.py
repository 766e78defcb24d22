# SPDX-License-Identifier: Apache-2.0
"""Cross-builds the board's server: one file, of objects kept by what they are made of."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from platformdirs import user_cache_path

from kope_tvm.device.cross_compiler import CrossCompiler, find_cross_compiler
from kope_tvm.device.sources import SERVER, Sources, checkout_sources, server_files
from kope_tvm.device.sources import installed_sources as wheels
from kope_tvm.errors import KopeError

NAME = "kope-server"
Progress = Callable[[int, int, str], None]
"""Objects done, objects in all, the one just done."""

_FLAGS = (
    *("-std=c++17", "-O2", "-g0", "-fPIC", "-march=rv64gc", "-mabi=lp64d", "-w"),
    *("-DTVM_FFI_USE_LIBBACKTRACE=0", "-DTVM_FFI_BACKTRACE_ON_SEGFAULT=0"),
    "-DTVM_FFI_CMAKE_LITTLE_ENDIAN=1",
)
_LINK = ("-rdynamic", "-static-libstdc++", "-static-libgcc")
"""Candidates resolve TVM's functions in the server; the board's own libstdc++ may be older."""
_LIBRARIES = ("-l:libatomic.a", "-ldl", "-lpthread")


@dataclass(frozen=True)
class _Object:
    source: Path
    path: Path
    flags: tuple[str, ...]


def build_server(
    output: Path | None = None,
    tvm_source: Path | None = None,
    progress: Progress = lambda _done, _all, _name: None,
    *,
    versions: tuple[str, str] | None = None,
) -> Path:
    """The server's file: in the cache, or copied to `output` (a folder, or the file to write).

    `versions` of tvm and tvm-ffi stand for those it says it is made of. Raises KopeError where
    there is no compiler, or it refuses a file.
    """
    compiler, cache = find_cross_compiler(), cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache, prefix="staging-") as staging:
        sources = checkout_sources(tvm_source) if tvm_source else wheels(Path(staging))
        objects = _objects(sources, compiler, cache, versions)
        _compile_missing(objects, compiler, progress)
    server = _linked(objects, compiler, cache)
    return server if output is None else _copied(server, output)


def cache_dir() -> Path:
    """Where objects and servers are kept."""
    return user_cache_path("kope-tvm") / "device"


def _objects(
    sources: Sources, compiler: CrossCompiler, cache: Path, versions: tuple[str, str] | None
) -> list[_Object]:
    includes = [f"-I{folder}" for folder in sources.include_dirs]
    prefix = (f"-ffile-prefix-map={sources.tvm}=tvm", f"-ffile-prefix-map={sources.ffi}=tvm_ffi")
    headers = _digest(sources.headers, (compiler.version, *_FLAGS))
    flags = (*_FLAGS, *includes, *prefix)
    runtime = [_object(file, headers, flags, cache) for file in sources.runtime_files]
    tvm, ffi = versions or (sources.tvm_version, sources.ffi_version)
    defines = (f'-DKOPE_TVM_VERSION="{tvm}"', f'-DKOPE_FFI_VERSION="{ffi}"')
    ours = _digest(sorted(SERVER.glob("*.h")), (headers,))
    flags = (*flags, f"-I{SERVER}", f"-ffile-prefix-map={SERVER}=server")
    *others, stamp = server_files()
    own = [_object(file, ours, flags, cache) for file in others]
    stamped = _object(stamp, _digest((), (ours, *defines)), (*flags, *defines), cache)
    return [*runtime, *own, stamped]


def _object(source: Path, base: str, flags: tuple[str, ...], cache: Path) -> _Object:
    return _Object(source, cache / f"{source.stem}-{_digest([source], (base,))}.o", flags)


def _compile_missing(
    objects: Sequence[_Object], compiler: CrossCompiler, progress: Progress
) -> None:
    missing = [each for each in objects if not each.path.exists()]
    done = len(objects) - len(missing)
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        running = {pool.submit(_compile, each, compiler): each for each in missing}
        try:
            for ended in as_completed(running):
                ended.result()
                done += 1
                progress(done, len(objects), running[ended].source.name)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _compile(each: _Object, compiler: CrossCompiler) -> None:
    partial = each.path.with_name(f"{each.path.name}.{os.getpid()}.partial")
    _run([compiler.cxx, *each.flags, "-c", str(each.source), "-o", str(partial)], each.source.name)
    partial.replace(each.path)


def _linked(objects: Sequence[_Object], compiler: CrossCompiler, cache: Path) -> Path:
    names = "\n".join(each.path.name for each in objects)
    server = cache / f"{NAME}-{_digest((), (names, *_LINK, *_LIBRARIES))}"
    if not server.exists():
        partial = server.with_name(f"{server.name}.{os.getpid()}.partial")
        files = [str(each.path) for each in objects]
        _run([compiler.cxx, *_LINK, "-o", str(partial), *files, *_LIBRARIES], NAME)
        partial.replace(server)
    return server


def _copied(server: Path, output: Path) -> Path:
    place = output / NAME if output.is_dir() or output.suffix == "" else output
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(server, place)
    return place


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise KopeError(f"{Path(command[0]).name} refuses {what}: {errors[0][:400]}")


def _digest(files: Iterable[Path], words: Iterable[str]) -> str:
    """Of the files' names and contents, and of the words."""
    found = sha256()
    for word in words:
        found.update(word.encode() + b"\0")
    for file in files:
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:20]
