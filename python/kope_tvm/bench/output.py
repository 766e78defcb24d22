# SPDX-License-Identifier: Apache-2.0
"""A bench run as JSON, as tables in a terminal, and as Markdown for a pull request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from kope_tvm.bench.result import OWN, Bench, Operator
from kope_tvm.bench.summary import BARS, Totals, against, totals
from kope_tvm.bench.talk import STAGES
from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import KopeError

SHAPE = "kope-bench-2"
"""Of the JSON: the fields of `Bench`, with `ratios`, `geomean`, `against` and `totals` beside them;
what is infinite or unknown is null.
"""
_PIPE_COLUMNS = 200


@dataclass(frozen=True)
class Sheet:
    """One table."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first column is words, the others are figures."""


def publish(bench: Bench, wanted: Wanted) -> None:
    """Print the tables; write JSON and Markdown where asked.

    Raises KopeError at the end where an operator could not be benched.
    """
    if not bench.operators:
        raise KopeError(_failed(bench))
    if wanted.json_file is not None:
        text = json.dumps(_finite(as_json(bench)), indent=1, allow_nan=False)
        wanted.json_file.write_text(text + "\n", encoding="utf-8")
    found = list(sheets(bench))
    if wanted.markdown_file is not None:
        wanted.markdown_file.write_text(markdown(bench, found), encoding="utf-8")
    # In a pipe rich assumes 80 columns, and would cut the operators' names.
    console = Console()
    console.width = console.width if console.is_terminal else _PIPE_COLUMNS
    for sheet in found:
        console.print(_rich(sheet))
    if bench.failed:
        raise KopeError(_failed(bench))


def _failed(bench: Bench) -> str:
    told = "; ".join(f"{spec}: {why}" for spec, why in bench.failed.items())
    return f"not benched, {len(bench.failed)} operators: {told}"


def as_json(bench: Bench) -> dict[str, Any]:
    """Everything, with the figures a reader wants."""
    peers = bench.peers
    by_peer = {peer: bench.ratios(peer) for peer in peers}
    ratios = {
        one.spec: {peer: by_peer[peer][one.spec] for peer in peers if one.spec in by_peer[peer]}
        for one in bench.operators
    }
    return {
        "shape": SHAPE,
        "suite": bench.configuration.suite,
        **asdict(bench),
        "ratios": ratios,
        "geomean": {peer: bench.geomean(peer) for peer in peers},
        "against": [asdict(against(bench, peer)) for peer in peers],
        "totals": asdict(totals(bench)),
    }


def _finite(data: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    return [_finite(one) for one in data] if isinstance(data, (list, tuple)) else data


def sheets(bench: Bench) -> Iterator[Sheet]:
    """The ratios, what they come to, when they were reached, and what a model said."""
    yield _ratios(bench)
    yield _in_all(bench)
    stocks = [found for peer in bench.peers if (found := against(bench, peer)).reached]
    if stocks:
        rows = [
            (f"{each.contender} to {each.share:.0%} of {found.peer}", f"{each.num_reached}",
             f"{each.num_early}", _number(each.median_trials, "{:.0f}"))
            for found in stocks
            for each in found.reached
        ]  # fmt: skip
        headers = ("", "operators", "within 8 trials", "median trials")
        yield Sheet("trials until as fast as", headers, tuple(rows))
    if any(one.tuned[OWN].talk for one in bench.operators if OWN in one.tuned):
        yield _talks(bench)
    yield Sheet("in all", ("", "figure"), tuple(_totals(totals(bench))))


def _title(bench: Bench, text: str) -> str:
    told = bench.configuration
    return f"suite {told.suite}, {told.trials} trials, model: {told.model}: {text}"


def _ratios(bench: Bench) -> Sheet:
    peers = bench.peers
    rows = []
    for one in bench.operators:
        ratios = [f"{one.speed(OWN, p):.2f}" if p in one.run_secs else "-" for p in peers]
        rows.append((one.spec, *ratios, *_own(one)))
    last = ("geomean", *[f"{bench.geomean(peer):.2f}" for peer in peers], "", "", "", "")
    headers = ("operator", *peers, "noise", "ms", "of roof", "by")
    title = _title(bench, "how many times as fast kope is as …")
    return Sheet(title, headers, (*rows, last))


def _own(one: Operator) -> tuple[str, str, str, str]:
    roof = f"{one.roof_share(OWN):.0%}" if one.roof_secs else "-"
    by = one.tuned[OWN].space if one.is_optimised else "untuned"
    return (f"±{one.noise(OWN):.0%}", f"{one.secs(OWN) * 1e3:.3g}", roof, by)


def _in_all(bench: Bench) -> Sheet:
    headers = (
        "kope over", "n", "geomean", "optimised", "of n", "median", "p25", "least",
        *(f"fast_{bar:g}" for bar in BARS),
    )  # fmt: skip
    rows = []
    for found in (against(bench, peer) for peer in bench.peers):
        middle = (f"{found.median:.2f}", f"{found.quarter:.2f}", f"{found.least:.2f}")
        fast = [f"{share:.0%}" for share in found.fast.values()]
        means = (str(found.geomean), str(found.optimised), f"{found.num_optimised}")
        rows.append((found.peer, f"{found.num_operators}", *means, *middle, *fast))
    return Sheet(_title(bench, "95% intervals by bootstrap"), headers, tuple(rows))


def _talks(bench: Bench) -> Sheet:
    headers = ("operator", "calls", *STAGES, "mended", "tokens", "tokens a success")
    rows = []
    for one in bench.operators:
        talk = one.tuned[OWN].talk if OWN in one.tuned else None
        if talk is not None:
            came = [f"{number}" for number in talk.reached]
            tokens = f"{talk.prompt_tokens + talk.completion_tokens}"
            each = _number(talk.tokens_per_success, "{:.0f}")
            mended = f"{talk.mended}/{talk.repaired}"
            rows.append((one.spec, f"{talk.calls}", *came, mended, tokens, each))
    title = _title(bench, "how far a model's proposals came")
    return Sheet(title, headers, tuple(rows))


def _totals(found: Totals) -> Iterator[tuple[str, str]]:
    yield "operators", f"{found.num_operators}"
    yield "faster than untuned", f"{found.num_optimised}"
    yield "median share of the roof", _number(found.roof_share, "{:.0%}")
    yield "kope's own share of its wall time", f"{found.own_share:.1%}"
    for name, secs in found.wall_secs.items():
        yield f"tuning by {name}", f"{secs:.0f} s"
    if found.calls:
        tokens, successes = found.tokens, max(1, found.successes)
        yield "legal replies", f"{found.legal_share:.0%}"
        yield "near misses mended", f"{found.mended} of {found.near_misses}"
        yield "tokens a success", f"{tokens / successes:.0f}"
        yield "calls a success", f"{found.calls / successes:.1f}"


def _number(value: float, form: str) -> str:
    return form.format(value) if math.isfinite(value) else "-"


def markdown(bench: Bench, found: list[Sheet]) -> str:
    """Every sheet, under the command that made them and the configuration."""
    told = asdict(bench.configuration)
    lines = [f"`{bench.command}`", "", "; ".join(f"{key}: {told[key]}" for key in told), ""]
    for sheet in found:
        lines += [f"**{sheet.title}**", "", _line(sheet.headers)]
        lines += [_line(("---", *["--:"] * (len(sheet.headers) - 1)))]
        lines += [*map(_line, sheet.rows), ""]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _rich(sheet: Sheet) -> Table:
    shown = Table(title=sheet.title)
    for number, header in enumerate(sheet.headers):
        shown.add_column(header, justify="right" if number else "left")
    for row in sheet.rows:
        shown.add_row(*row)
    return shown
