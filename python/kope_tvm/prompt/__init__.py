# SPDX-License-Identifier: Apache-2.0
"""What a model is told: sections packed under a token budget, and how its reply is read."""
