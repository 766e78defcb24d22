# SPDX-License-Identifier: Apache-2.0
"""What `kope bench --json` kept, read back for a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kope_tvm.errors import UsageError

_OWN = "kope"
BESIDE = ("kope over", "n", "geomean", "optimised", "of n", "median", "p25", "least")
"""After them, a column a bar of fast_p."""


@dataclass(frozen=True)
class Row:
    """An operator: how many times as fast kope is as each peer."""

    spec: str
    ratios: Mapping[str, float]


@dataclass(frozen=True)
class BenchStory:
    """A run of a suite."""

    suite: str
    command: str
    date: str
    versions: Mapping[str, str]
    peers: tuple[str, ...]
    rows: tuple[Row, ...]
    geomean: Mapping[str, float]
    """By peer, over all operators."""
    beside: tuple[tuple[str, ...], ...]
    """In all, a row a peer, under `BESIDE`."""
    figures: tuple[tuple[str, str], ...]
    """What else the run says of itself: its configuration, and what it came to in all."""


def shortly(spec: str) -> str:
    """An operator's spec without what most of them share."""
    return spec.removeprefix("op:").removesuffix(",dtype=float32")


def read_bench(path: Path) -> BenchStory:
    """Read a file of `kope bench --json` with ratios in it.

    Raises UsageError for any other file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return _story(found)
    except (OSError, ValueError) as error:
        raise UsageError(f"--bench {path}: cannot be read as JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"--bench {path}: no ratios by operator in it ({error}); give what "
            "`kope bench --suite quick|kope53 --json FILE` wrote"
        ) from error


def _story(found: Mapping[str, Any]) -> BenchStory:
    ratios: Mapping[str, Mapping[str, float]] = found["ratios"]
    rows = tuple(
        Row(spec, {peer: float(one) for peer, one in by.items()}) for spec, by in ratios.items()
    )
    peers = tuple(dict.fromkeys(peer for row in rows for peer in row.ratios if peer != _OWN))
    return BenchStory(
        suite=str(found["suite"]),
        command=str(found["command"]),
        date=str(found["date"]),
        versions={str(name): str(one) for name, one in found["versions"].items()},
        peers=peers,
        rows=rows,
        geomean={str(peer): float(one) for peer, one in found["geomean"].items()},
        beside=tuple(_beside(found.get("against", ()))),
        figures=tuple(_figures({**found.get("configuration", {}), **found.get("totals", {})})),
    )


def _beside(found: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """The head, then a row a peer; nothing where there are no peers."""
    for number, one in enumerate(found):
        if not number:
            yield (*BESIDE, *(f"fast_{bar}" for bar in one["fast"]))
        yield (
            str(one["peer"]),
            str(one["num_operators"]),
            _interval(one["geomean"]),
            _interval(one["optimised"]),
            str(one["num_optimised"]),
            *(f"{one[name]:.2f}" for name in ("median", "quarter", "least")),
            *(f"{share:.0%}" for share in one["fast"].values()),
        )


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def _figures(found: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Nested figures, each with its way there as its name."""
    for name, value in found.items():
        way = f"{above} {name.replace('_', ' ')}".strip()
        if isinstance(value, Mapping):
            yield from _figures(value, way)
        elif isinstance(value, float):
            yield way, f"{value:.3g}"
        elif isinstance(value, list):
            yield (
                way,
                ", ".join(f"{one:.3g}" if isinstance(one, float) else str(one) for one in value),
            )
        else:
            yield way, str(value)
