# SPDX-License-Identifier: Apache-2.0
"""A product that every test of MLIR's own execution can afford."""

MATMUL = """\
func.func @matmul(%a: tensor<32x16xf32>, %b: tensor<16x64xf32>) -> tensor<32x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x64xf32>) -> tensor<32x64xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x16xf32>, tensor<16x64xf32>)
      outs(%init : tensor<32x64xf32>) -> tensor<32x64xf32>
  return %c : tensor<32x64xf32>
}
"""

FUSED_INTO_THE_REDUCTION = """\
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %c = transform.structured.match ops{["linalg.matmul"]} in %root
      : (!transform.any_op) -> !transform.any_op
    %tile, %loop = transform.structured.fuse %c tile_sizes [0, 0, 4]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
"""
"""MLIR takes the zeros along into the loop over the reduction, and the sums start anew in it."""
