# SPDX-License-Identifier: Apache-2.0
"""What the machine says of a kernel beyond its time: the roof above it, the code it became."""
