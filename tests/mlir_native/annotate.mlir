// RUN: mlir-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(kope-annotate{experience=%experience})' %s | FileCheck %s

// CHECK-LABEL: func.func @known(
// CHECK: linalg.fill ins
// CHECK: linalg.matmul {kope.config = {tile_sizes = [array<i64: 8, 32, 0>, array<i64: 0, 0, 1>], vector = array<i64: 8, 32, 1>}}
func.func @known(%a: tensor<32x16xf32>, %b: tensor<16x64xf32>) -> tensor<32x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x64xf32>) -> tensor<32x64xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x16xf32>, tensor<16x64xf32>)
      outs(%init : tensor<32x64xf32>) -> tensor<32x64xf32>
  return %c : tensor<32x64xf32>
}

// Another extent, another key.
// CHECK-LABEL: func.func @unknown(
// CHECK-NOT: kope.config
func.func @unknown(%a: tensor<32x16xf32>, %b: tensor<16x32xf32>, %c: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %d = linalg.matmul ins(%a, %b : tensor<32x16xf32>, tensor<16x32xf32>)
      outs(%c : tensor<32x32xf32>) -> tensor<32x32xf32>
  return %d : tensor<32x32xf32>
}
