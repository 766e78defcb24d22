// SPDX-License-Identifier: Apache-2.0
// The column sums of sqrt(relu(x * scale + shift)): named elementwise operations and one reduction.
func.func @elementwise_reduction(%x: tensor<1024x1024xf32>, %scale: tensor<1024x1024xf32>,
    %shift: tensor<1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %table = tensor.empty() : tensor<1024x1024xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%table : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %scaled = linalg.mul ins(%x, %scale : tensor<1024x1024xf32>, tensor<1024x1024xf32>)
      outs(%table : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %shifts = linalg.broadcast ins(%shift : tensor<1024xf32>) outs(%table : tensor<1024x1024xf32>) dimensions = [0]
  %shifted = linalg.add ins(%scaled, %shifts : tensor<1024x1024xf32>, tensor<1024x1024xf32>)
      outs(%table : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %positive = linalg.max ins(%shifted, %zeros : tensor<1024x1024xf32>, tensor<1024x1024xf32>)
      outs(%table : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %roots = linalg.sqrt ins(%positive : tensor<1024x1024xf32>)
      outs(%table : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %row = tensor.empty() : tensor<1024xf32>
  %none = linalg.fill ins(%zero : f32) outs(%row : tensor<1024xf32>) -> tensor<1024xf32>
  %sums = linalg.reduce { arith.addf } ins(%roots : tensor<1024x1024xf32>) outs(%none : tensor<1024xf32>) dimensions = [0]
  return %sums : tensor<1024xf32>
}
