# SPDX-License-Identifier: Apache-2.0
"""What the parts of a tree are called: changes, ratios and outcomes in few words."""

from __future__ import annotations

import re
import unicodedata

from kope_tvm.graph_view.knobs import knob_names, knob_values
from kope_tvm.graph_view.tree import Branch, DecisionTree, Hidden
from kope_tvm.progress import spell_secs

_KNOB = re.compile(r"#(\d+) ")
_NOISY = 0.05
"""A spread that is worth a word."""
_EXACT_FROM = 10.0


def spell_change(branch: Branch) -> str:
    """What was changed, with knobs by what they turn."""
    experience = branch.experience
    if not experience.change:
        values = knob_values(experience.proposal) if experience.lane == "decisions" else ()
        return one_line(f"sampled {' '.join(values)}") if values else "not described"
    names = knob_names(experience.proposal) if "#" in experience.change else {}

    def name(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"{names[number]}: " if number in names else match[0]

    return one_line(_KNOB.sub(name, experience.change))


def spell_ratio(ratio: float | None) -> str:
    """A ratio to three digits, e.g. `1.43x`; empty where it is unknown."""
    if ratio is None:
        return ""
    return f"{ratio:.0f}x" if ratio >= 1000 else f"{ratio:.3g}x"


def spell_ratios(branch: Branch) -> str:
    """To its parent, and to the untuned function where that is another."""
    ratio, speedup = spell_ratio(branch.ratio), spell_ratio(branch.speedup)
    if not branch.under or not speedup:
        return ratio
    return f"{ratio}, {speedup} in all" if ratio else f"{speedup} in all"


def spell_outcome(branch: Branch) -> str:
    """Its time or its failure, in full."""
    experience = branch.experience
    if experience.code:
        return one_line(f"{experience.code} {experience.reason}")
    words = spell_secs(branch.secs or 0.0)
    if experience.noise > _NOISY:
        words += f" ±{100 * experience.noise:.0f}%"
    return f"{words}, suspicious: {one_line(experience.reason)}" if experience.suspicious else words


def spell_origin(branch: Branch) -> str:
    """The space, the lane and the proposer."""
    one = branch.experience
    named = dict.fromkeys(filter(None, (one.space, one.lane, one.proposer)))
    return one_line(" ".join(named))


def spell_hidden(hidden: Hidden) -> str:
    """What is left out at a place."""
    words = f"{hidden.num_decisions} more"
    parts = []
    if hidden.best_speedup:
        parts.append(f"at most {spell_ratio(hidden.best_speedup)} in all")
    if hidden.num_failed:
        parts.append(f"{hidden.num_failed} failed")
    return ": ".join((words, ", ".join(parts))) if parts else words


def spell_title(tree: DecisionTree) -> str:
    """The task and the machine."""
    where = f"{tree.machine_key}, simulated" if tree.simulated else tree.machine_key
    return one_line(f"{tree.task_name} {tree.task_key}: {tree.what} on {where}")


def spell_summary(tree: DecisionTree) -> str:
    """The untuned time, the best one and how much was tried."""
    parts = [f"untuned {spell_secs(tree.baseline_secs)}"]
    if tree.best is not None:
        num_steps = sum(1 for one in tree.branches if one.is_winning)
        steps = f"{num_steps} step" + "s" * (num_steps > 1)
        best = f"best {spell_secs(tree.best.secs or 0.0)}"
        parts.append(f"{best}, {spell_ratio(tree.best.speedup)} in {steps}".replace(",  in", " in"))
    tried = len(tree.branches) + tree.num_hidden
    parts.append(f"{tried} tried, {tree.num_failed} failed")
    return "; ".join(parts)


def one_line(text: str) -> str:
    """Text of a stranger for one line of a terminal: no control characters, no direction marks."""
    shown = "".join(" " if unicodedata.category(char)[0] == "C" else char for char in text)
    return " ".join(shown.split())


def shortened(text: str, length: int) -> str:
    """At most so many characters."""
    return text if len(text) <= length else f"{text[: length - 3].rstrip()}..."
