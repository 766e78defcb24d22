# SPDX-License-Identifier: Apache-2.0
"""What the suite `riscv` found, as plain data, and its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from kope_tvm.bench.statistics import geomean
from kope_tvm.device.simulate.counted import MARK

KOPE = "kope"
SCALAR = "scalar"
AUTOVEC = "autovec"
STOCK = ("metaschedule rvv", "metaschedule")
"""With TVM's own spaces for RVV and the CPU's own vector form, and with the target's string."""
CONTENDERS = (SCALAR, AUTOVEC, *STOCK, KOPE)


@dataclass(frozen=True)
class Entry:
    """One contender on one operator."""

    cycles: int
    """0 where nothing right was found."""
    wrong: str
    """Where the output is wrong; empty where it is right."""
    lengths: Mapping[int, str]
    """By vector length, what Spike says of it."""
    counters: str
    trials: int = 0
    failed: int = 0
    num_wrong: int = 0
    tune_secs: float = 0.0

    @property
    def is_right(self) -> bool:
        """Right in its numbers, and at no vector length wrong."""
        return self.cycles > 0 and not self.wrong and "wrong" not in self.lengths.values()


@dataclass(frozen=True)
class Operator:
    """One operator, every contender."""

    spec: str
    entries: Mapping[str, Entry]

    def speed(self, over: str) -> float:
        """How many times as fast kope is."""
        return self.cycles(over) / self.entries[KOPE].cycles

    def cycles(self, contender: str) -> int:
        """Of its best; a search that found nothing right keeps the untuned function."""
        return self.entries[contender].cycles or self.entries[AUTOVEC].cycles

    @property
    def over_stock(self) -> float:
        """Over the better of the stock searches, or the untuned function where that is faster."""
        return min(self.speed(name) for name in (*STOCK, AUTOVEC))

    @property
    def is_dear(self) -> bool:
        """Whether it calls exp or log, for which kope brings vector code and TVM has none."""
        return self.spec.startswith(("op:log:", "op:softmax:"))


@dataclass(frozen=True)
class RiscvBench:
    """A whole run."""

    target: str
    trials: int
    versions: Mapping[str, str]
    operators: tuple[Operator, ...]
    mark: str = MARK
    """What stands beside every time."""

    @property
    def search_secs(self) -> float:
        """Wall seconds of all searches, those of a run that was broken off among them."""
        return sum(one.tune_secs for each in self.operators for one in each.entries.values())

    def geomean(self, speed: Callable[[Operator], float], *, with_dear: bool = True) -> float:
        """Geometric mean over the operators."""
        return geomean(speed(one) for one in self.operators if with_dear or not one.is_dear)

    def as_json(self) -> dict[str, Any]:
        """Everything, with the ratios a reader wants."""
        plain = asdict(self)
        plain["suite"] = "riscv"
        plain["search_secs"] = self.search_secs
        plain["ratios"] = {
            one.spec: {peer: one.speed(peer) for peer in CONTENDERS if peer != KOPE}
            for one in self.operators
        }
        plain["geomean"] = {
            peer: self.geomean(lambda one, peer=peer: one.speed(peer))  # type: ignore[misc]
            for peer in CONTENDERS
            if peer != KOPE
        }
        plain["geomean"]["better stock"] = self.geomean(lambda one: one.over_stock)
        plain["geomean"]["better stock, no exp or log"] = self.geomean(
            lambda one: one.over_stock, with_dear=False
        )
        return plain


def table(bench: RiscvBench) -> Table:
    """Kope's cycles, and its speed over each other contender; geomeans last."""
    peers = [name for name in CONTENDERS if name != KOPE]
    where = f"one core of {bench.target} ({bench.mark})"
    title = f"suite riscv on {where}: how many times as fast kope is as"
    shown = Table(title=title)
    for name in ("operator", "cycles", *peers, "right at"):
        shown.add_column(name, justify="left" if name == "operator" else "right")
    for one in bench.operators:
        mine = one.entries[KOPE]
        ratios = [f"{one.speed(peer):.2f}" for peer in peers]
        lengths = " ".join(f"{vlen}" for vlen, word in mine.lengths.items() if word == "right")
        shown.add_row(one.spec, f"{mine.cycles:,}", *ratios, lengths if mine.is_right else "WRONG")
    shown.add_section()
    means = [bench.geomean(lambda one, p=peer: one.speed(p)) for peer in peers]  # type: ignore[misc]
    shown.add_row("geomean", "", *[f"{mean:.2f}" for mean in means], "")
    shown.caption = (
        "over the best of both stock searches and the untuned function "
        f"{bench.geomean(lambda one: one.over_stock):.2f}, without exp and log "
        f"{bench.geomean(lambda one: one.over_stock, with_dear=False):.2f}; "
        f"{bench.trials} trials a search, {bench.search_secs:.0f} s in all"
    )
    return shown
