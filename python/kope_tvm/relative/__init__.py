# SPDX-License-Identifier: Apache-2.0
"""Decisions relative to the hardware, so that another machine or shape can have its own of them."""
