# SPDX-License-Identifier: Apache-2.0
"""The door for PyTorch: a module in, a faster callable out, torch's own kernels where they win."""

from kope_tvm.torch.optimize import optimize
from kope_tvm.torch.optimized import Optimized, Part

__all__ = ["Optimized", "Part", "optimize"]
