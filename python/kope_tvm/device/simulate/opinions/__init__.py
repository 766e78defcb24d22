# SPDX-License-Identifier: Apache-2.0
"""What others say of the same schedules: the simulated machine ranks, two more models check it."""
