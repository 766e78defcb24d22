# SPDX-License-Identifier: Apache-2.0
"""Talking with a model: requests under a budget, replies on record."""
