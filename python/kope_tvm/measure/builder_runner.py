# SPDX-License-Identifier: Apache-2.0
"""A stock `ms.tune_tir(builder=..., runner=...)` on kope's measuring pool.

The builder only hands modules over: the runner's pool builds a whole batch in its own way, so a
candidate that does not compile is the runner's failure here.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from kope_tvm.measure.pool import Pool
from kope_tvm.measure.references import module_json
from kope_tvm.outcome import Measurement

if TYPE_CHECKING:
    from tvm import IRModule

_ARTIFACT = "module.json"


@derived_object
class KopeBuilder(ms.builder.PyBuilder):
    """Hands each module to a `KopeRunner`, in a folder that MetaSchedule removes afterwards."""

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """One artifact path per input."""
        return [ms.builder.BuilderResult(_store(given.mod), None) for given in build_inputs]


@derived_object
class KopeRunner(ms.runner.PyRunner):
    """Builds and measures what a `KopeBuilder` handed over; checked where `reference` is given."""

    def __init__(self, pool: Pool, reference: IRModule | None = None) -> None:
        super().__init__()
        self.pool = pool
        self.reference = reference

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """Futures that are all done."""
        modules = [Path(given.artifact_path).read_bytes() for given in runner_inputs]
        outcomes = dict(self.pool.measure(modules, reference=self.reference))
        return [_Done(outcomes[index]) for index in range(len(modules))]


@derived_object
class _Done(ms.runner.PyRunnerFuture):
    """The future of a measurement that has been made."""

    def __init__(self, measurement: Measurement) -> None:
        super().__init__()
        self.measurement = measurement

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        if self.measurement.ok:
            return ms.runner.RunnerResult(list(self.measurement.run_secs), None)
        failed = self.measurement
        return ms.runner.RunnerResult(None, f"{failed.code} in {failed.stage}: {failed.error}")


def _store(mod: IRModule) -> str:
    path = Path(tempfile.mkdtemp(prefix="kope-candidate-")) / _ARTIFACT
    path.write_bytes(module_json(mod))
    return str(path)
