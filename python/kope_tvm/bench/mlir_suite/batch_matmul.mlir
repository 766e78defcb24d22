// SPDX-License-Identifier: Apache-2.0
func.func @batch_matmul(%a: tensor<8x128x128xf32>, %b: tensor<8x128x64xf32>) -> tensor<8x128x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x128x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x128x64xf32>) -> tensor<8x128x64xf32>
  %c = linalg.batch_matmul ins(%a, %b : tensor<8x128x128xf32>, tensor<8x128x64xf32>)
      outs(%init : tensor<8x128x64xf32>) -> tensor<8x128x64xf32>
  return %c : tensor<8x128x64xf32>
}
