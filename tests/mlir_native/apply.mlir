// RUN: mlir-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(kope-annotate{experience=%experience},kope-apply,canonicalize)' %s | FileCheck %s

// CHECK-LABEL: func.func @matmul(
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[ROWS:.*]] = arith.constant 8 : index
// CHECK-DAG: %[[COLUMNS:.*]] = arith.constant 32 : index
// CHECK: scf.for {{.*}} step %[[ROWS]]
// CHECK: scf.for {{.*}} step %[[COLUMNS]]
// CHECK: scf.for {{.*}} step %[[ONE]]
// CHECK: arith.mulf {{.*}} : vector<8x32x1xf32>
// CHECK-NOT: linalg.matmul
// CHECK-NOT: kope.config
// CHECK: return
func.func @matmul(%a: tensor<32x16xf32>, %b: tensor<16x64xf32>, %c: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %d = linalg.matmul ins(%a, %b : tensor<32x16xf32>, tensor<16x64xf32>)
      outs(%c : tensor<32x64xf32>) -> tensor<32x64xf32>
  return %d : tensor<32x64xf32>
}

// CHECK-LABEL: func.func @conv(
// CHECK: vector.contract
// CHECK-NOT: linalg.conv
// CHECK: return
func.func @conv(%image: tensor<1x10x10x4xf32>, %weight: tensor<3x3x4x16xf32>, %init: tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
  %out = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image, %weight : tensor<1x10x10x4xf32>, tensor<3x3x4x16xf32>)
      outs(%init : tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  return %out : tensor<1x8x8x16xf32>
}
