# SPDX-License-Identifier: Apache-2.0
"""A compiled model as C: one relocatable object, a header, and what builds programs with them."""
