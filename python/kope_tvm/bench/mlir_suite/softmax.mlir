// SPDX-License-Identifier: Apache-2.0
// Over the last axis, spelt out: maximum, exponentials, their sum and the quotient.
func.func @softmax(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<512xf32>
  %table = tensor.empty() : tensor<512x1024xf32>
  %low = linalg.fill ins(%lowest : f32) outs(%row : tensor<512xf32>) -> tensor<512xf32>
  %max = linalg.reduce { arith.maximumf } ins(%x : tensor<512x1024xf32>) outs(%low : tensor<512xf32>) dimensions = [1]
  %exp = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<512x1024xf32>, tensor<512xf32>) outs(%table : tensor<512x1024xf32>) {
  ^bb0(%value: f32, %most: f32, %unused: f32):
    %shifted = arith.subf %value, %most : f32
    %power = math.exp %shifted : f32
    linalg.yield %power : f32
  } -> tensor<512x1024xf32>
  %none = linalg.fill ins(%zero : f32) outs(%row : tensor<512xf32>) -> tensor<512xf32>
  %sum = linalg.reduce { arith.addf } ins(%exp : tensor<512x1024xf32>) outs(%none : tensor<512xf32>) dimensions = [1]
  %out = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<512x1024xf32>, tensor<512xf32>) outs(%table : tensor<512x1024xf32>) {
  ^bb0(%power: f32, %all: f32, %unused: f32):
    %share = arith.divf %power, %all : f32
    linalg.yield %share : f32
  } -> tensor<512x1024xf32>
  return %out : tensor<512x1024xf32>
}
