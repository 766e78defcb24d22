# SPDX-License-Identifier: Apache-2.0
"""Makes a seed: tunes a suite on a machine, and adds what is worth shipping to a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kope_tvm.memory.seed import add_to_seed
from kope_tvm.memory.store import Store
from kope_tvm.operators import QUICK_SUITE, parse_operator
from kope_tvm.tuning import tune

SEED_SUITE: tuple[str, ...] = (
    *QUICK_SUITE,
    "op:matmul:m=1,n=1024,k=1024,dtype=float32",
    "op:matmul:m=1024,n=256,k=512,dtype=float32",
    "op:batch_matmul:b=12,m=64,n=64,k=64,dtype=float32",
    "op:conv2d:n=1,ci=3,h=224,w=224,co=32,kernel=3,stride=2,pad=1,dtype=float32",
    "op:conv2d:n=1,ci=256,h=14,w=14,co=256,kernel=3,stride=1,pad=1,dtype=float32",
    "op:conv2d:n=1,ci=256,h=28,w=28,co=128,kernel=1,stride=1,pad=0,dtype=float32",
    "op:depthwise_conv2d:n=1,ci=96,h=28,w=28,kernel=5,stride=1,pad=2,dtype=float32",
    "op:softmax:m=64,n=4096,dtype=float32",
    "op:layernorm:m=128,n=1024,dtype=float32",
    "op:rmsnorm:m=64,n=4096,dtype=float32",
    "op:reduce_sum:m=256,n=4096,dtype=float32",
    "op:gelu:m=128,n=1024,dtype=float32",
    "op:matmul_int8:m=128,n=768,k=768,dtype=int8",
)
"""The quick suite, and each of its operators at a shape or two of other proportions."""


def make_seed(
    path: Path,
    suite: Sequence[str],
    target: str,
    *,
    trials: int,
    rewind: int,
    seed: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Tune a suite without a model or former experience; how many experiences were added to `path`.

    Raises ModelError for an operator that is none before anything is tuned.
    """
    for spec in suite:
        parse_operator(spec)
    with tempfile.TemporaryDirectory(prefix="kope-seed-") as folder:
        for number, spec in enumerate(suite):
            say(spec)
            each = Path(folder) / str(number)
            memory = str(each / "memory.sqlite")
            tune(
                spec,
                target,
                each / "work",
                trials,
                proposer="experience",
                memory=memory,
                seed=seed,
                rewind=rewind,
            )
        return _gathered(Path(folder), path)


def _gathered(folder: Path, path: Path) -> int:
    with Store.open(folder / "all.sqlite") as learned:
        for one in sorted(folder.glob("*/memory.sqlite")):
            with Store.open(one) as store:
                learned.merge(store)
        return add_to_seed(learned, path)
