# SPDX-License-Identifier: Apache-2.0
"""Boards: their RPC server built here, served under emulation, asked what they are."""
