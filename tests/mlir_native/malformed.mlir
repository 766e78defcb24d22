// RUN: not mlir-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(kope-apply)' %s 2>&1 | FileCheck %s

// CHECK: error: 'linalg.matmul' op kope.config is {tile_sizes = 8 : i64}; expected {tile_sizes = [array<i64: ...>, ...]}
func.func @matmul(%a: tensor<32x16xf32>, %b: tensor<16x64xf32>, %c: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %d = linalg.matmul {kope.config = {tile_sizes = 8 : i64}} ins(%a, %b : tensor<32x16xf32>, tensor<16x64xf32>)
      outs(%c : tensor<32x64xf32>) -> tensor<32x64xf32>
  return %d : tensor<32x64xf32>
}
