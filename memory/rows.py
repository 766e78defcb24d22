# SPDX-License-Identifier: Apache-2.0
"""An Experience as rows of the store and back, and the content keys that name them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from statistics import median
from typing import Any, NamedTuple

from kope_tvm.memory.experience import Experience
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Features

Row = dict[str, Any]

NODES = ("task", "machine", "state", "proposal")
"""Tables that a decision refers to; those that refer to decisions follow from them."""


class Outline(NamedTuple):
    """What ranking needs of a decision, without its texts."""

    id: int
    key: str
    task_key: str
    machine_key: str
    proposal_key: str
    state: str
    parent: str
    lane: str
    space: str
    secs: float | None
    baseline_secs: float
    code: str
    suspicious: bool
    simulated: bool
    change: str
    """Empty where it does not say what it changed."""
    cites: str
    """As JSON."""
    toolchain: str
    at: float


class Edge(NamedTuple):
    """The words of a decision, without what replays it."""

    id: int
    task_name: str
    lane: str
    space: str
    change: str
    code: str
    reason: str
    state: str


@dataclass(frozen=True)
class Machine:
    """A core class that experience was made on."""

    key: str
    facts: Facts

    @property
    def kind(self) -> str:
        return self.key.split("/", 1)[0]

    @classmethod
    def of(cls, spec: TargetSpec) -> Machine:
        """The machine of a target."""
        return cls(spec.key, spec.facts)

    @classmethod
    def from_key(cls, key: str) -> Machine:
        """The machine of a `TargetSpec.key`, as far as the key tells."""
        parts = key.rsplit("/", 3)
        if len(parts) < 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return cls(key, Facts())
        return cls(key, Facts(parts[1], vlen_bits=int(parts[2]), num_cores=int(parts[3])))


def storable(value: str) -> str:
    """What both databases can hold: a model's reply may carry lone surrogates and NULs."""
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def _finite(value: float) -> float:
    return float(value) if isfinite(value) else 0.0


_CLEAN: dict[str, Callable[[Any], Any]] = {
    "str": storable,
    "int": int,
    "float": _finite,
    "bool": bool,
    "tuple[float, ...]": lambda values: tuple(float(v) for v in values if isfinite(v)),
    "tuple[str, ...]": lambda values: tuple(map(storable, values)),
    "Features": lambda value: value,
}
_FIELDS = tuple((item.name, _CLEAN[str(item.type)]) for item in fields(Experience))
_LATER = (("repairs", "repair_turn", "signature"), ("source", "relative"))
"""Fields that came with a migration each; they count in a key only where one of the migration's is
set, so that older experiences keep their keys.
"""
LATER_DEFAULTS = {
    item.name: item.default for item in fields(Experience) if item.name in sum(_LATER, ())
}
"""What a row of an older version lacks."""
_KEYED = tuple(name for name, _ in _FIELDS if name not in ("features", *sum(_LATER, ())))


def clean(experience: Experience) -> Experience:
    """The experience as it will be read back: plain numbers, finite, and storable text."""
    values = {name: convert(getattr(experience, name)) for name, convert in _FIELDS}
    return Experience(**values)


def content_key(*parts: object) -> str:
    """A key that says what, not where: the same parts give the same key everywhere."""
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def experience_key(experience: Experience) -> str:
    """The identity of an experience, as `cites` names it; features are the task's, not its own."""
    return _decision_key(clean(experience))


def _decision_key(cleaned: Experience) -> str:
    parts = [getattr(cleaned, name) for name in _KEYED]
    for names in _LATER:
        later = [getattr(cleaned, name) for name in names]
        parts += later if any(later) else ()
    return content_key(*parts)


def task_row(key: str, name: str, features: Features, seen_at: float) -> Row:
    """The task node; the newest features known of a task hold."""
    return {
        "key": key,
        "name": name,
        "op_class": features.op_class,
        "flops": _finite(features.flops),
        "bytes_moved": _finite(features.bytes_moved),
        "num_blocks": int(features.num_blocks),
        "features": _features_text(features),
        "seen_at": seen_at,
    }


@lru_cache(maxsize=1024)
def _features_text(features: Features) -> str:
    return json.dumps(asdict(features), sort_keys=True)


def machine_row(machine: Machine, name: str, seen_at: float) -> Row:
    """The machine node; `seen_at` 0 says that its facts were only read off its key."""
    facts = machine.facts
    return {
        "key": machine.key,
        "name": name,
        "isa": facts.isa,
        "vlen_bits": facts.vlen_bits,
        "num_cores": facts.num_cores,
        "facts": json.dumps(asdict(facts), sort_keys=True),
        "seen_at": seen_at,
    }


def proposal_row(experience: Experience) -> Row:
    """The text that replays it, once however often it was tried."""
    text = experience.proposal
    return {"key": content_key(experience.lane, experience.space, text), "text": text}


_SAME = frozenset(item.name for item in fields(Experience)) - {
    "features", "proposal", "order", "run_secs", "cites",
}  # fmt: skip


def decision_row(experience: Experience, proposal_key: str) -> Row:
    """The edge itself."""
    row: Row = {name: getattr(experience, name) for name in _SAME}
    return row | {
        "key": _decision_key(experience),
        "proposal_key": proposal_key,
        "position": experience.order,
        "run_secs": json.dumps(experience.run_secs),
        "secs": measured_secs(experience),
        "cites": json.dumps(experience.cites),
    }


def measured_secs(experience: Experience) -> float | None:
    """The median of the repeats; None for what failed."""
    if experience.code or not experience.run_secs:
        return None
    return median(experience.run_secs)


def experience_from(row: Mapping[str, Any]) -> Experience:
    """The experience of a decision joined with its proposal's `text` and its task's `features`."""
    values = {name: row[name] for name in _SAME}
    return Experience(
        **values,
        features=features_from(row["features"]),
        proposal=row["text"],
        order=row["position"],
        run_secs=tuple(json.loads(row["run_secs"])),
        cites=tuple(json.loads(row["cites"])),
    )


def features_from(text: str) -> Features:
    """Features as `task_row` wrote them; what a newer version added is left out."""
    known = {item.name for item in fields(Features)}
    values: Row = {name: value for name, value in json.loads(text).items() if name in known}
    for name in ("spatial_extents", "reduce_extents", "dtypes", "strides"):
        values[name] = tuple(values.get(name, ()))
    return Features(**values)


def facts_from(text: str) -> Facts:
    """Facts as `machine_row` wrote them."""
    known = {item.name for item in fields(Facts)}
    return Facts(**{name: value for name, value in json.loads(text).items() if name in known})
