# SPDX-License-Identifier: Apache-2.0
"""LLVM's own simulation of the X60's pipeline, piece by piece, weighed by how often each ran."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kope_tvm.device.simulate.counter import MCPU
from kope_tvm.errors import KopeError

DEBIAN_PACKAGE = "llvm-22"
_SHARE = 0.98
"""Of the instructions that ran: the rest is the way in and out."""
_SEWS = ("E8", "E16", "E32", "E64")
_LMULS = ("MF8", "MF4", "MF2", "M1", "M2", "M4", "M8")
_LINE = re.compile(r"^ *([0-9a-f]+):\s+(\S.*)$")
_TARGET = re.compile(r"0x[0-9a-f]+ <.*>")
_COMMENT = re.compile(r" +<.*>")


@dataclass(frozen=True)
class Piece:
    """Code without a jump into or out of it."""

    start: int
    end: int
    times: int
    vector_type: int
    """On entry: index of the SEW times 7, plus that of the LMUL."""

    @property
    def weight(self) -> int:
        return (self.end - self.start) * self.times


@dataclass(frozen=True)
class Report:
    """What `llvm-mca` says of one piece, passed through again and again."""

    piece: Piece
    instructions: int
    cycles: float
    """A pass."""
    unit: str
    """The busiest, e.g. `VFP`: vector floating point; `VLS`: vector loads and stores."""
    unit_cycles: float
    """A pass keeps that unit so long."""

    @property
    def line(self) -> str:
        """As a model is told it."""
        return (
            f"llvm-mca of the hottest piece: {self.instructions} instr in {self.cycles:.1f} cycles "
            f"a pass, {self.piece.times} passes; busiest unit {self.unit}, "
            f"{self.unit_cycles:.1f} cycles"
        )


def mca_cycles(program: Path, profile: Path) -> float:
    """What `llvm-mca` says of the pieces of a program that a profile lists."""
    return sum(each.piece.times * each.cycles for each in mca_reports(program, profile))


def mca_reports(program: Path, profile: Path) -> tuple[Report, ...]:
    """One for each piece that matters, the one that takes longest first."""
    pieces = _hot(profile)
    listing = _listing(program, pieces)
    regions = [_region(f"piece{i}", piece, listing) for i, piece in enumerate(pieces)]
    command = (tool("llvm-mca"), "-mtriple=riscv64", f"-mcpu={MCPU}", "-json")
    answer = json.loads(_output(command, "\n".join(regions) + "\n"))
    units = [re.sub(r"\W.*", "", str(name)) for name in answer["TargetInfo"]["Resources"]]
    views = {each["Name"]: each for each in answer["CodeRegions"]}
    found = [_report(piece, views[f"piece{i}"], units) for i, piece in enumerate(pieces)]
    return tuple(sorted(found, key=lambda each: -each.cycles * each.piece.times))


def _report(piece: Piece, view: dict[str, Any], units: Sequence[str]) -> Report:
    summary, num = view["SummaryView"], len(view["Instructions"])
    uses = view["ResourcePressureView"]["ResourcePressureInfo"]
    totals = [each for each in uses if each["InstructionIndex"] == num]
    busiest = max(totals, key=lambda each: float(each["ResourceUsage"]), default=None)
    return Report(
        piece=piece,
        instructions=num,
        cycles=float(summary["TotalCycles"]) / int(summary["Iterations"]),
        unit=units[busiest["ResourceIndex"]].partition("_")[2] if busiest else "",
        unit_cycles=float(busiest["ResourceUsage"]) if busiest else 0.0,
    )


@lru_cache(maxsize=4)
def tool(name: str) -> str:
    """One of LLVM 22's tools: older ones do not know the X60."""
    for found in filter(None, map(shutil.which, (f"{name}-22", name))):
        if "version 22" in _output((found, "--version")):
            return found
    raise KopeError(f"{name} 22 is not installed; apt-get install {DEBIAN_PACKAGE}")


def _hot(profile: Path) -> list[Piece]:
    rows = [line.split() for line in profile.read_text().splitlines()]
    pieces = [Piece(int(a, 16), int(b, 16), int(n), int(t)) for a, b, n, t in rows]
    pieces.sort(key=lambda each: each.weight, reverse=True)
    total, so_far, kept = sum(each.weight for each in pieces), 0, []
    for piece in pieces:
        if so_far >= _SHARE * total:
            break
        so_far += piece.weight
        kept.append(piece)
    return kept


def _listing(program: Path, pieces: Sequence[Piece]) -> dict[int, str]:
    """The text of each instruction by its address."""
    first, last = min(each.start for each in pieces), max(each.end for each in pieces)
    span = (f"--start-address={first:#x}", f"--stop-address={last:#x}")
    command = (tool("llvm-objdump"), "-d", "--no-show-raw-insn", f"--mcpu={MCPU}", *span)
    found = (_LINE.match(line) for line in _output((*command, str(program))).splitlines())
    return {int(each[1], 16): _COMMENT.sub("", _TARGET.sub("0", each[2])) for each in found if each}


def _region(name: str, piece: Piece, listing: dict[int, str]) -> str:
    sew, lmul = _SEWS[piece.vector_type // 7], _LMULS[piece.vector_type % 7]
    return "\n".join(
        (
            f"# LLVM-MCA-BEGIN {name}",
            f"# LLVM-MCA-RISCV-LMUL {lmul}",
            f"# LLVM-MCA-RISCV-SEW {sew}",
            *_instructions(piece, listing),
            f"# LLVM-MCA-END {name}",
        )
    )


def _instructions(piece: Piece, listing: dict[int, str]) -> Iterator[str]:
    for address in range(piece.start, piece.end, 2):
        if address in listing:
            yield listing[address].replace("\t", " ")


def _output(command: Sequence[str], source: str = "") -> str:
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KopeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
