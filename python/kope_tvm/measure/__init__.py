# SPDX-License-Identifier: Apache-2.0
"""Measuring on this machine: a process per candidate, forked from one that has imported TVM."""

from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool

__all__ = ["MeasureConfig", "Pool"]
