# SPDX-License-Identifier: Apache-2.0
"""MLIR's linalg: tuned as TIR, and what was found said in the transform dialect."""
