# SPDX-License-Identifier: Apache-2.0
"""One compiled function as a program of its own: on Linux, or on a bare RISC-V machine."""
