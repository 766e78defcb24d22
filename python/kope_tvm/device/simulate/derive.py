# SPDX-License-Identifier: Apache-2.0
"""Derives what instructions cost on a core from LLVM's scheduling model of it.

The tables beside this package were written by
`python -m kope_tvm.device.simulate.derive spacemit-x60 llvm-mc-22 llvm-objdump-22 llvm-mca-22`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from kope_tvm.device.simulate.encodings import Encoding, encodings

COSTS_DIR = Path(__file__).parent / "costs"
SEWS = (8, 16, 32, 64)
LMULS = ("mf8", "mf4", "mf2", "m1", "m2", "m4", "m8")
_LISTED = re.compile(r"^ +[0-9a-f]+: [0-9a-f]+ +\t(.*)$", re.M)


@dataclass(frozen=True)
class Tools:
    """LLVM 22's `llvm-mc`, `llvm-objdump` and `llvm-mca`, and the core to ask about."""

    mcpu: str
    llvm_mc: str
    llvm_objdump: str
    llvm_mca: str


@dataclass(frozen=True)
class Cost:
    """One instruction at one element width and register group."""

    latency: int
    """Cycles until its result can be used."""
    units: str
    """Units that can do it, any one of them, e.g. `IEUA|IEUB`."""
    busy: int
    """Cycles for which that unit takes no other."""


Costs = tuple[Cost, ...]
"""For every SEW, every LMUL; a single one for what has no vector type."""


def main(arguments: Sequence[str]) -> None:
    """Writes the two tables of a core."""
    tools = Tools(*arguments)
    named = _disassembled(tools, [*encodings()])
    costs = _rated(tools, named)
    classes = [*dict.fromkeys(costs)]
    number = {cost: index for index, cost in enumerate(classes)}
    rows = [
        f"{encoding.mask:08x}\t{encoding.match:08x}\t{number[cost]}\t{text.split()[0]}"
        for (encoding, text), cost in zip(named, costs, strict=True)
    ]
    _write(COSTS_DIR / f"{tools.mcpu}.encodings.tsv", "mask\tmatch\tclass\tname", rows)
    columns = "class\tsew\tlmul\tlatency\tunits\tbusy"
    _write(COSTS_DIR / f"{tools.mcpu}.classes.tsv", columns, _class_rows(classes))


def _class_rows(classes: Sequence[Costs]) -> list[str]:
    keys = [(str(sew), lmul) for sew in SEWS for lmul in LMULS]
    return [
        f"{index}\t{sew}\t{lmul}\t{cost.latency}\t{cost.units}\t{cost.busy}"
        for index, costs in enumerate(classes)
        for (sew, lmul), cost in zip(keys if len(costs) > 1 else [("0", "-")], costs, strict=True)
    ]


def _write(path: Path, columns: str, rows: Sequence[str]) -> None:
    path.write_text("\n".join([f"# {columns}", *rows]) + "\n")


def _disassembled(tools: Tools, known: list[Encoding]) -> list[tuple[Encoding, str]]:
    """Each with the text of its first legal word; those with none are left out."""
    words = [(encoding, word) for encoding in known for word in encoding.words]
    source = "\n".join(f".insn 4, {word:#x}" for _, word in words)
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        assemble = (tools.llvm_mc, "-filetype=obj", f"-mcpu={tools.mcpu}", "-o", made.name)
        _run((*assemble, "-triple=riscv64"), source)
        listing = _run((tools.llvm_objdump, "-d", f"--mcpu={tools.mcpu}", made.name))
    texts = [found[1].replace("\t", " ") for found in _LISTED.finditer(listing)]
    found: dict[Encoding, str] = {}
    for (encoding, _), text in zip(words, texts, strict=True):
        if text != "<unknown>":
            found.setdefault(encoding, re.sub(r"0x[0-9a-f]+ <.*>", "0", text))
    return [*found.items()]


def _run(command: Sequence[str], source: str = "") -> str:
    return subprocess.run(
        command, input=source, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _rated(tools: Tools, named: Sequence[tuple[Encoding, str]]) -> list[Costs]:
    scalars = [text for encoding, text in named if not encoding.is_vector]
    vectors = [text for encoding, text in named if encoding.is_vector]
    alone = iter([(cost,) for cost in _ask(tools, scalars)])
    by_type = [_typed(tools, vectors, sew, lmul) for sew in SEWS for lmul in LMULS]
    typed = iter([*zip(*by_type, strict=True)])
    return [next(typed if encoding.is_vector else alone) for encoding, _ in named]


def _typed(tools: Tools, texts: Sequence[str], sew: int, lmul: str) -> list[Cost]:
    """Of a reserved combination, as of the smallest group there is for that width."""
    least = {8: 0, 16: 1, 32: 2, 64: 3}[sew]
    legal = LMULS[max(least, LMULS.index(lmul))]
    vset = f"vsetvli zero, zero, e{sew}, {legal}, ta, ma"
    return _ask(tools, [vset, *texts])[1:]


def _ask(tools: Tools, texts: Sequence[str]) -> list[Cost]:
    command = (tools.llvm_mca, "-mtriple=riscv64", f"-mcpu={tools.mcpu}", "-instruction-tables")
    report = json.loads(_run((*command, "-json"), "\n".join(texts)))
    (region,) = report["CodeRegions"]
    names = _units(report["TargetInfo"]["Resources"])
    used: list[dict[str, float]] = [{} for _ in texts]
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] < len(texts):
            name = names[use["ResourceIndex"]]
            used[use["InstructionIndex"]][name] = use["ResourceUsage"]
    views = region["InstructionInfoView"]["InstructionList"]
    return [_cost(view, units) for view, units in zip(views, used, strict=True)]


def _units(resources: Sequence[str]) -> list[str]:
    """Without the core's prefix; the members of a group, which share a name, are numbered."""
    names = [re.sub(r"\W.*", "", name).partition("_")[2] for name in resources]
    return [
        f"{name}{names[:index].count(name)}" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def _cost(view: dict[str, float], units: dict[str, float]) -> Cost:
    total = sum((Fraction(cycles) for cycles in units.values()), start=Fraction(0))
    return Cost(int(view["Latency"]), "|".join(sorted(units)) or "-", max(1, round(total)))


if __name__ == "__main__":
    main(sys.argv[1:])
