# SPDX-License-Identifier: Apache-2.0
"""The plan lane: schedule primitives as JSON steps, addressed by block and loop names."""
