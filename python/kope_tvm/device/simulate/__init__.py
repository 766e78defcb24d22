# SPDX-License-Identifier: Apache-2.0
"""A board that is not there: what a guest executes, counted and weighed under QEMU."""
