# SPDX-License-Identifier: Apache-2.0
"""A compiled model as an operator of ggml: kernels, and the C that puts them into a graph."""
