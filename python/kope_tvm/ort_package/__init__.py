# SPDX-License-Identifier: Apache-2.0
"""A compiled model as operators of ONNX Runtime: a library that it loads, and a model that asks."""
