# SPDX-License-Identifier: Apache-2.0
"""What may become "best": one gate a file, found by listing this folder, cheap before dear."""
