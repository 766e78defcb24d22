# SPDX-License-Identifier: Apache-2.0
"""Machines by name: reads `targets/*.toml`, finds out what `native` stands for, asks LLVM."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from kope_tvm import host
from kope_tvm.errors import TargetError
from kope_tvm.target import Facts, Limits, TargetSpec, code_choices

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    import tvm

NATIVE = "native"
_FOLDER = Path(__file__).parent / "targets"
_TABLES = {"summary": str, "target": dict, "rpc": dict, "limits": dict, "facts": dict}
_TELLING = ("kind", "mcpu", "mattr", "arch", "model")
"""What tells known targets apart."""
_GPUS = ("cuda",)
"""Kinds that know no `num-cores`: their multiprocessors are a fact."""
_Record = TypeVar("_Record", Facts, Limits)


def known_targets() -> tuple[str, ...]:
    """Names that `load_target` knows, sorted."""
    return tuple(sorted(_files()))


def load_target(name_or_path: str | Path) -> TargetSpec:
    """Read a target, resolve what is `native`, and have LLVM accept it.

    Raises TargetError for an unknown name, a malformed file, and an mcpu or feature that LLVM
    lacks: LLVM itself would go on without it, and TVM without vector code.
    """
    spec = read_target(name_or_path)
    config = dict(spec.tvm_target)
    if config.get("mcpu") == NATIVE:
        config.update(_native_cpu())
    _check_target(config, spec.name)
    return replace(spec, tvm_target=config, code_choices=code_choices(config, spec.facts.isa))


def read_target(name_or_path: str | Path) -> TargetSpec:
    """Read a target without TVM: an mcpu stays `native`, and nobody asks LLVM."""
    path = _path_of(str(name_or_path))
    data = _parsed(path)
    for key, value in data.items():
        _check_type(value, _expected(key, _TABLES, f"{path}"), f"{path}: {key}")
    config = dict(data.get("target", {}))
    elsewhere = "" if config["kind"] in _GPUS else "num_cores"
    facts = _record(Facts(), data.get("facts", {}), f"{path}: [facts]", elsewhere)
    if config.get("mcpu") == NATIVE:
        facts = _merged(facts, host.detect())
    if config["kind"] not in _GPUS:
        config["num-cores"] = num_cores = _num_cores(config, path)
        facts = replace(facts, num_cores=num_cores)
    rpc = data.get("rpc", {})
    for key, value in rpc.items():
        _check_type(value, _expected(key, {"key": str}, f"{path}: [rpc]"), f"{path}: [rpc] {key}")
    return TargetSpec(
        name=path.stem,
        tvm_target=config,
        facts=facts,
        limits=_record(Limits(), data.get("limits", {}), f"{path}: [limits]"),
        rpc_key=rpc.get("key", ""),
        summary=data.get("summary", ""),
    )


def board_for(config: Mapping[str, Any]) -> TargetSpec | None:
    """A known target with boards that run a target's code: best one of the same mcpu."""
    known = [read_target(name) for name in known_targets()]
    kin = [spec for spec in known if spec.rpc_key and _arch(spec.tvm_target) == _arch(config)]
    same = [spec for spec in kin if spec.tvm_target.get("mcpu") == config.get("mcpu")]
    return next(iter((*same, *kin)), None)


def _arch(config: Mapping[str, Any]) -> str:
    return str(config.get("mtriple", "")).partition("-")[0]


def tvm_target(spec: TargetSpec) -> tvm.target.Target:
    """TVM's own object for a machine."""
    from tvm.target import Target

    return Target(dict(spec.tvm_target))


def spec_of_target(target: tvm.target.Target) -> TargetSpec:
    """The machine behind a target that a caller of MetaSchedule made.

    Facts that LLVM cannot tell are this machine's or a known target's, where the mcpu is theirs.
    """
    config = {key: _plain(value) for key, value in dict(target.export()).items()}
    relative = _relative(config)
    facts = relative.facts if relative else Facts()
    if config.get("kind") == "llvm":
        isa = host.isa_of(_llvm_features(config))
        facts = replace(
            facts, isa=isa.name, vlen_bits=isa.vlen_bits, vector_registers=isa.vector_registers
        )
    name = relative.name if relative else str(config.get("mcpu") or config.get("kind"))
    if config.get("kind") in _GPUS:
        return TargetSpec(name=name, tvm_target=config, facts=facts)
    num_cores = int(config.get("num-cores", facts.num_cores))
    facts = replace(facts, num_cores=num_cores)
    return TargetSpec(name=name, tvm_target={**config, "num-cores": num_cores}, facts=facts)


@lru_cache(maxsize=1)
def _files() -> Mapping[str, Path]:
    """Targets by name: ours, then those of packages that entry points `kope_tvm.targets` name."""
    found = {path.stem: path for path in _FOLDER.glob("*.toml")}
    for entry in entry_points(group="kope_tvm.targets"):
        package = find_spec(entry.value)
        for folder in (package.submodule_search_locations or ()) if package else ():
            for path in Path(folder).glob("*.toml"):
                found.setdefault(path.stem, path)
    return found


def _path_of(name: str) -> Path:
    if name in _files():
        return _files()[name]
    path = Path(name)
    if path.suffix == ".toml" or path.name != name:
        if path.is_file():
            return path
        raise TargetError(f"{name}: no such target file; known targets: {_listed()}")
    close = get_close_matches(name, known_targets(), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise TargetError(
        f"unknown target {name!r}; {hint}known targets: {_listed()}; "
        f"add targets/{name}.toml or pass a path"
    )


def _listed() -> str:
    return ", ".join(known_targets())


def _parsed(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{path}: not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"{path}: cannot be read: {error}") from error
    if not isinstance(data.get("target"), dict) or not data["target"].get("kind"):
        raise TargetError(f'{path}: expected a table [target] with a kind, e.g. kind = "llvm"')
    return data


def _num_cores(config: Mapping[str, Any], path: Path) -> int:
    given = config.get("num-cores")
    if given == NATIVE:
        return host.usable_cores(host.ROOT, host.usable_cpus())
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise TargetError(
            f"{path}: [target] num-cores is {given!r}; expected a whole number from 1 up, "
            'or "native" for the cores of the machine it is loaded on'
        )
    return given


def _record(default: _Record, table: Mapping[str, Any], where: str, elsewhere: str = "") -> _Record:
    """The key `elsewhere` is no key here: it is said once, as TVM's num-cores."""
    types = dict(get_type_hints(type(default)))
    types.pop(elsewhere, None)
    for key, value in table.items():
        _check_type(value, _expected(key, types, where), f"{where} {key}")
        if not isinstance(value, str) and value < 0:
            raise TargetError(f"{where} {key} is {value!r}; expected 0 (unknown) or more")
    return replace(default, **table)


def _expected(key: str, types: Mapping[str, type], where: str) -> type:
    if key in types:
        return types[key]
    fix = "; cores go in [target] num-cores" if key == "num_cores" else ""
    raise TargetError(f"{where}: unknown key {key!r}; known keys: {', '.join(sorted(types))}{fix}")


def _check_type(value: object, expected: type, where: str) -> None:
    accepted = (int, float) if expected is float else (expected,)
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise TargetError(
            f"{where} is {value!r}, a {type(value).__name__}; expected a {expected.__name__}"
        )


def _merged(given: Facts, found: Facts) -> Facts:
    """What a file says stands above what was found."""
    empty = Facts()
    said = {key: value for key, value in vars(given).items() if value != getattr(empty, key)}
    return replace(found, **said)


def _native_cpu() -> dict[str, Any]:
    """This CPU in LLVM's words, less what a hypervisor hides."""
    from tvm.target import codegen

    mcpu = str(codegen.llvm_get_system_cpu())
    config = {"kind": "llvm", "mcpu": mcpu}
    masked = host.masked_features(_llvm_features(config), host.cpu_flags())
    return {"mcpu": mcpu, **({"mattr": [f"-{name}" for name in masked]} if masked else {})}


def _check_target(config: Mapping[str, Any], name: str) -> None:
    from tvm.target import Target

    if config["kind"] == "llvm":
        _check_cpu(config, name)
    try:
        Target(dict(config))
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise TargetError(f"target {name!r}: TVM refuses [target]: {reason}") from error
    if config["kind"] == "llvm":
        _check_features(config, name)


def _check_cpu(config: Mapping[str, Any], name: str) -> None:
    from tvm.target import Target, codegen

    triple = str(config.get("mtriple") or codegen.llvm_get_system_triple())
    mcpu = str(config.get("mcpu", "generic"))
    if codegen.llvm_is_valid_cpu(mcpu, triple):
        return
    if not codegen.llvm_is_valid_cpu("generic", triple):
        raise TargetError(f"target {name!r}: LLVM {_llvm()} has no code generator for {triple!r}")
    known = [str(cpu) for cpu in codegen.llvm_get_cpu_archlist(Target(_generic(triple)))]
    close = ", ".join(get_close_matches(mcpu, known, n=3)) or ", ".join(sorted(known)[:8])
    raise TargetError(
        f"target {name!r}: LLVM {_llvm()} does not know mcpu {mcpu!r} for {triple}; near: {close}; "
        "name one of these, or a generic mcpu with the features in mattr"
    )


def _generic(triple: str) -> dict[str, Any]:
    return {"kind": "llvm", "mtriple": triple, "mcpu": "generic"}


def _llvm() -> int:
    from tvm.target import codegen

    return int(codegen.llvm_version_major())


def _check_features(config: Mapping[str, Any], name: str) -> None:
    """LLVM drops a feature it does not know; switched on, a known one is seen among the CPU's."""
    given = [str(feature) for feature in config.get("mattr", ())]
    names = [feature.lstrip("+-") for feature in given]
    known = _llvm_features({**config, "mattr": [f"+{each}" for each in names]})
    for feature, each in zip(given, names, strict=True):
        if feature[:1] not in {"+", "-"} or each not in known:
            raise TargetError(
                f"target {name!r}: LLVM {_llvm()} does not know feature {feature!r} in mattr; "
                "expected '+name' or '-name' of a feature of this architecture"
            )


def _llvm_features(config: Mapping[str, Any]) -> frozenset[str]:
    from tvm.target import Target, codegen

    return frozenset(str(each) for each in codegen.llvm_get_cpu_features(Target(dict(config))))


def _relative(config: Mapping[str, Any]) -> TargetSpec | None:
    """The known target of the same mcpu and features; this machine before a mere level."""
    for name in sorted(known_targets(), key=lambda each: each != "host"):
        spec = load_target(name)
        same = (spec.tvm_target.get(key) == config.get(key) for key in _TELLING)
        if all(same):
            return spec
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__iter__"):
        return [_plain(each) for each in value]
    return value
