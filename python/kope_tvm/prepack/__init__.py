# SPDX-License-Identifier: Apache-2.0
"""Constant weights laid out as a tuned function wants them, when a model is compiled."""
