# SPDX-License-Identifier: Apache-2.0
"""Experience as years of tuning would leave it: many tasks, machines and lanes, made from a seed.

One session tunes one task on one machine: what it tries is derived from what it tried before, some
of it fails, some cites what was recalled. A longer stream begins like a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from kope_tvm.memory.experience import Experience
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Features, Task

TRIALS = 64
"""Edges a session."""
_YEAR_SECS = 365.25 * 86400
_NEW_TASK = 0.7
"""Share of sessions that tune a function never seen before."""
_FAILED = 0.2
_CITES = 0.3
_DERIVED = 0.75
_MOST_CITED = 6
_CODES = ("E_BUILD", "E_NUMERICS", "E_TIMEOUT", "E_STEP", "E_DEVICE", "E_CACHED")
_TOOLCHAINS = (
    "tvm 0.26.0, ffi 0.1.10, llvm 21",
    "tvm 0.27.0.post1, ffi 0.1.14.post1, llvm 22",
)

_OP_CLASSES = {
    "matmul": (2, 1, 30), "conv2d": (4, 3, 20), "elementwise": (2, 0, 12), "norm": (2, 0, 10),
    "softmax": (2, 0, 8), "depthwise": (4, 2, 8), "reduce": (1, 1, 6), "pool": (4, 2, 4),
    "other": (3, 1, 2),
}  # fmt: skip
"""Spatial loops, reduction loops and how often, by operator class."""

MACHINES = tuple(
    TargetSpec(
        mcpu or kind,
        {"kind": kind, "mcpu": mcpu},
        Facts(isa, vlen_bits, 32, cores, l1_kib << 10, l2_kib << 10, l3_mib << 20),
    )
    for kind, mcpu, isa, vlen_bits, cores, l1_kib, l2_kib, l3_mib in (
        ("llvm", "znver5", "avx512", 512, 2, 48, 1024, 32),
        ("llvm", "znver4", "avx512", 512, 16, 32, 1024, 64),
        ("llvm", "skylake-avx512", "avx512", 512, 8, 32, 1024, 16),
        ("llvm", "haswell", "avx2", 256, 4, 32, 256, 8),
        ("llvm", "spacemit-x60", "rvv", 256, 8, 32, 512, 0),
        ("llvm", "generic-rv64", "rvv", 1024, 4, 32, 512, 0),
        ("llvm", "apple-m1", "neon", 128, 4, 128, 12288, 0),
        ("cuda", "sm_90", "cuda", 0, 132, 256, 51200, 0),
    )
)

_LANES = (
    ("decisions", "sketch", 1280), ("decisions", "rule", 7150), ("plan", "", 420),
    ("rewrite", "", 3600),
)  # fmt: skip
"""Lane, space and the length of a proposal in characters, as real memories have them."""
_LANE_WEIGHTS = (50, 34, 8, 8)
_STEP = '["Split",["l%d","None","v%d"],[true,false],["l%d","l%d"]],'


@dataclass
class _Session:
    """A task on a machine while it is tuned."""

    features: Features
    task_key: str
    machine: TargetSpec
    run_id: str
    began: float
    best_secs: float
    states: list[tuple[str, float]]


class Stream:
    """An endless stream of experiences, the same for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)
        self.tasks: list[tuple[str, Features]] = []
        self._recent: dict[str, list[str]] = {}
        """Fast states by operator class, which later sessions cite."""
        self._count = 0

    def experiences(self, count: int) -> Iterator[Experience]:
        """The next `count` ones; whole sessions but for the last."""
        left = count
        while left:
            session = self._session()
            for number in range(min(left, TRIALS)):
                yield self._trial(session, number)
            left -= min(left, TRIALS)

    def unseen_task(self, machine: TargetSpec) -> Task:
        """A function that is in no session."""
        return Task("main", f"{self._random.getrandbits(64):016x}", "", machine, self._features())

    def _features(self) -> Features:
        names = list(_OP_CLASSES)
        weights = [weight for *_, weight in _OP_CLASSES.values()]
        (op_class,) = self._random.choices(names, weights)
        num_spatial, num_reduce, _ = _OP_CLASSES[op_class]
        spatial = tuple(self._extent() for _ in range(num_spatial))
        reduce = tuple(self._extent() for _ in range(num_reduce))
        dtype = self._random.choices(("float32", "float16", "int8"), (7, 2, 1))[0]
        moved = 4.0 * sum(spatial) * 16
        return Features(op_class, spatial, reduce, (dtype,) * 3, moved * 8, moved, 1 + num_reduce)

    def _extent(self) -> int:
        base = 1 << self._random.randint(2, 12)
        return base if self._random.random() < 0.6 else base * 3 // 2

    def _session(self) -> _Session:
        chance = self._random.random()
        if not self.tasks or chance < _NEW_TASK:
            self.tasks.append((f"{self._random.getrandbits(64):016x}", self._features()))
            task_key, features = self.tasks[-1]
        else:
            task_key, features = self._random.choice(self.tasks)
        machine = self._random.choices(MACHINES, (8, 4, 2, 2, 4, 1, 1, 2))[0]
        self._count += 1
        run_id = f"{self._random.getrandbits(48):012x}"
        began = 1.6e9 + (self._count * 0.6180339887 % 1.0) * 3 * _YEAR_SECS
        best_secs = 10 ** self._random.uniform(-5, -1.5)
        return _Session(features, task_key, machine, run_id, began, best_secs, [])

    def _trial(self, session: _Session, number: int) -> Experience:
        chance = self._random
        ((lane, space, size),) = chance.choices(_LANES, _LANE_WEIGHTS)
        op_class = session.features.op_class
        state = f"{chance.getrandbits(64):016x}"
        parent, change = "", "first guess"
        if session.states and chance.random() < _DERIVED:
            parent = chance.choice(session.states)[0]
            change = f"#{chance.randrange(20)} {1 << chance.randrange(4)} -> {chance.randrange(9)}"
        code = chance.choice(_CODES) if chance.random() < _FAILED else ""
        secs = session.best_secs * (1 + chance.expovariate(1.2))
        return Experience(
            task_key=session.task_key,
            task_name=f"fused_{op_class}",
            features=session.features,
            machine_key=session.machine.key,
            state=state,
            parent=parent,
            lane=lane,
            space=f"rule:{op_class}" if space == "rule" else space,
            proposal=_text(chance, size),
            proposer="chat" if lane != "decisions" else "experience",
            change=change,
            round_no=number // 8,
            order=number % 8,
            accepted=not code,
            code=code,
            reason="the loop is not a serial loop of the block" if code else "",
            suspicious=code == "E_CACHED",
            run_secs=() if code else (secs, secs * 1.01, secs * 1.02),
            baseline_secs=session.best_secs * 12,
            noise=0.0 if code else 0.01,
            tokens=900 if lane != "decisions" else 0,
            cites=self._cited(session, state, secs, code),
            seed=self._count,
            toolchain=_TOOLCHAINS[self._count % 3 > 0],
            simulated=False,
            run_id=session.run_id,
            at=session.began + number * 2.0,
        )

    def _cited(self, session: _Session, state: str, secs: float, code: str) -> tuple[str, ...]:
        """What the trial was made from; a fast one may be cited later."""
        recent = self._recent.setdefault(session.features.op_class, [])
        cites: tuple[str, ...] = ()
        if recent and self._random.random() < _CITES:
            cites = tuple(self._random.choices(recent, k=self._random.randint(1, _MOST_CITED)))
        if not code:
            session.states.append((state, secs))
            if secs < 1.3 * session.best_secs:
                recent.append(state)
                del recent[:-4096]
        return cites


def _text(chance: Random, size: int) -> str:
    """A trace of about `size` characters that no other equals."""
    step = _STEP % tuple(chance.randrange(1000) for _ in range(4))
    head = f'[[{chance.getrandbits(64)},"main"],'
    return (head + step * (1 + size // len(step)))[:size]
