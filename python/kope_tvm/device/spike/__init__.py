# SPDX-License-Identifier: Apache-2.0
"""Proves a compiled function at every vector length, on Spike: no board, no server, no Linux."""
