# SPDX-License-Identifier: Apache-2.0
"""Runs a suite of operators: each a contest, kept when it is done."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean

from kope_tvm.bench import ablations
from kope_tvm.bench.contender import SLOT_SECS
from kope_tvm.bench.contest import PEERS, Contest, Rules, scratch
from kope_tvm.bench.result import Bench, Configuration, Operator
from kope_tvm.bench.state import State
from kope_tvm.bench.stem import file_stem
from kope_tvm.bench.versions import versions
from kope_tvm.bench.wanted import Wanted
from kope_tvm.chat.open import Limits, check_dialogue
from kope_tvm.config import load_endpoint
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.machine import load_target
from kope_tvm.memory.location import default_path
from kope_tvm.operators import parse_operator

_MODELS = ("chat", "replay")


def run_suite(specs: Sequence[str], wanted: Wanted, against: Sequence[str]) -> Bench:
    """Bench the operators that are wanted of a suite; what a stopped run did is not done again.

    Raises UsageError for a peer, an ablation or an operator that is not there.
    """
    against = tuple(against if wanted.against is None else wanted.against)
    if unknown := [peer for peer in against if peer not in PEERS]:
        raise UsageError(f"unknown peer {unknown[0]!r}; peers: {', '.join(PEERS)}")
    chosen = chosen_of(specs, wanted)
    rules = Rules(
        load_target(wanted.target or "host"),
        wanted.trials,
        against,
        wanted.turns,
        _proposer(wanted),
        wanted.exchanges,
        wanted.memory,
        ablations.chosen(wanted.without, _proposer(wanted)),
    )
    _check_model(rules, chosen)
    for spec in chosen:
        parse_operator(spec)  # A wrong one ends the call before anything is made or tuned.
    configuration = _configuration(wanted, rules)
    with tempfile.TemporaryDirectory(prefix="kope-bench-") as temporary:
        state = State(_folder(wanted) or Path(temporary), configuration)
        operators, failed = [], {}
        for spec in chosen:
            try:
                operators.append(_operator(spec, rules, configuration.seeds, state, wanted))
            except (KopeError, OSError) as error:
                wanted.say(f"{spec}: {error}")
                failed[spec] = str(error)
    facts = asdict(rules.target.facts)
    return Bench(configuration, command(), _now(), versions(), facts, tuple(operators), failed)


def chosen_of(specs: Sequence[str], wanted: Wanted) -> tuple[str, ...]:
    """The operators of a suite that are asked for; raises UsageError where there are none."""
    number, count = wanted.shard
    found = [spec for spec in specs if _is_among(spec, wanted.only)][number - 1 :: count]
    if not found:
        raise UsageError(
            f"no operator of suite {wanted.suite} has {' or '.join(wanted.only) or 'anything'} in "
            f"its spec and is in shard {number}/{count}; --list names them"
        )
    return tuple(found)


def _is_among(spec: str, only: Sequence[str]) -> bool:
    return not only or any(text in spec for text in only)


def _operator(
    spec: str, rules: Rules, seeds: Sequence[int], state: State, wanted: Wanted
) -> Operator:
    found = []
    for seed in seeds:
        known = state.done(spec, seed)
        if known is None:
            wanted.say(spec if len(seeds) == 1 else f"{spec}, seed {seed}")
            folder = scratch(state.work(spec, seed))
            known = Contest(spec, rules, seed, folder).run()
            state.keep(known, seed)
        found.append(known)
    return merged(found)


def merged(repeats: Sequence[Operator]) -> Operator:
    """One operator's repeats: all turns of those who took part in each, the first one's tuning."""
    first = repeats[0]
    names = [name for name in first.run_secs if all(name in one.run_secs for one in repeats)]
    turns = {name: tuple(s for one in repeats for s in one.run_secs[name]) for name in names}
    tuned = {
        name: replace(
            one,
            wall_secs=fmean(each.tuned[name].wall_secs for each in repeats),
            is_optimised=all(each.tuned[name].is_optimised for each in repeats),
        )
        for name, one in first.tuned.items()
        if all(name in each.tuned for each in repeats)
    }
    absent = {name: why for one in repeats for name, why in one.absent.items()}
    return Operator(first.spec, turns, tuned, first.roof_secs, absent)


def _proposer(wanted: Wanted) -> str:
    return "replay" if wanted.exchanges is not None else wanted.proposer


def _check_model(rules: Rules, specs: Sequence[str]) -> None:
    """Say what is missing before an hour is spent."""
    if rules.exchanges is None:
        endpoint = load_endpoint(default_path().parent)
        check_dialogue(rules.proposer, endpoint, Limits(None, None, None), None)
        return
    for spec in specs:
        file = rules.exchanges / f"{file_stem(spec)}.jsonl"
        if not file.is_file():
            stored = sorted(one.stem for one in rules.exchanges.glob("*.jsonl"))
            raise UsageError(
                f"--exchanges {rules.exchanges}: nothing stored of {spec} ({file.name}); "
                f"there is {', '.join(stored) or 'nothing'}"
            )


def _configuration(wanted: Wanted, rules: Rules) -> Configuration:
    return Configuration(
        suite=wanted.suite,
        target=rules.target.name,
        trials=rules.trials,
        seeds=tuple(range(wanted.seed, wanted.seed + wanted.repeats)),
        against=rules.against,
        ablations=tuple(rules.ablations),
        model=_model(rules),
        memory=rules.memory.name if rules.memory else "",
        turns=rules.turns,
        slot_secs=SLOT_SECS,
    )


def _model(rules: Rules) -> str:
    if rules.proposer not in _MODELS:
        return "none"
    if rules.exchanges is not None:
        return f"replayed: {rules.exchanges.name}"
    return f"live: {load_endpoint(default_path().parent).model}"


def _folder(wanted: Wanted) -> Path | None:
    if wanted.state is not None or wanted.json_file is None:
        return wanted.state
    return wanted.json_file.with_suffix(".state")


def command() -> str:
    """What was typed."""
    return shlex.join(["kope", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
