# SPDX-License-Identifier: Apache-2.0
"""One schedule primitive as a plan may use it: its arguments and how it is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kope_tvm.plan.argument import Argument, name
from kope_tvm.plan.workpiece import Workpiece

Args = Mapping[str, Any]

BLOCK = Argument("block", name)
LOOP = Argument("loop", name)


@dataclass(frozen=True)
class Primitive:
    """One entry of the allow-list."""

    name: str
    mechanism: str
    """What it is a means of: `tile`, `order`, `vectorize`, `unroll`, `parallel`, `cache`, `place`,
    `fuse`, `reduce`, `layout`, `tensorize`, `bind` or `annotate`.
    """
    arguments: tuple[Argument, ...]
    apply: Callable[[Workpiece, Args], None]
    """Takes arguments that were read; raises StepError, or what TVM raises."""
