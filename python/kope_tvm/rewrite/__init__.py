# SPDX-License-Identifier: Apache-2.0
"""The rewrite lane: a whole function in TVMScript, read without running it."""
