# SPDX-License-Identifier: Apache-2.0
"""Side by side in one run: kope against its peers, ratios first."""
