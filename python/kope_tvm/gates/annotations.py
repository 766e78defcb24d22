# SPDX-License-Identifier: Apache-2.0
"""Refuses annotations that are not known to be hints: some bring code in, others leave code out."""

from __future__ import annotations

from kope_tvm import static_checks
from kope_tvm.candidate import Candidate
from kope_tvm.imported_code import IMPORT_LLVM, is_of_intrinsics
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.space import FORMS
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, scheduled_func

_HINTS = frozenset(
    {
        "auto_copy",
        "buffer_dim_align",
        "double_buffer_scope",
        *FORMS,
        "local_stage",
        "pragma_auto_unroll_max_step",
        "pragma_loop_partition_hint",
        "pragma_unroll_explicit",
        "software_pipeline_async_stages",
        "software_pipeline_order",
        "software_pipeline_stage",
        "tirx.manifest_shared_memory_local_stage",
        "warp_execution",
    }
)
"""What rules, plans, MetaSchedule and its intrinsics leave in a module."""
_PREFIX = "meta_schedule."


class Annotations:
    """`pragma_import_c`, `pragma_import_llvm`, `pragma_debug_skip_region` are the known traps."""

    cost = 2

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_ANNOTATION, naming the first key."""
        found = static_checks.annotation_keys(scheduled_func(candidate)) - _HINTS
        found = frozenset(key for key in found if not key.startswith(_PREFIX))
        if found:
            found -= of_untuned(static_checks.annotation_keys, task)
        if IMPORT_LLVM in found and is_of_intrinsics(candidate):
            found -= {IMPORT_LLVM}
        if not found:
            return accept("annotations")
        reason = f"{len(found)} annotations that are no hints in {task.name}, first {min(found)}"
        return refuse("annotations", "E_ANNOTATION", reason, suspicious=True)
