# SPDX-License-Identifier: Apache-2.0
"""Who proposes: one proposer a file, found by listing this folder."""
