# SPDX-License-Identifier: Apache-2.0
"""What is known of CUDA kernels before a compiler or a GPU sees them."""
