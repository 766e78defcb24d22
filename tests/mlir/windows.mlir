// SPDX-License-Identifier: Apache-2.0
func.func @conv(%x: tensor<1x10x16x8xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<1x8x14x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x8x14x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8x14x16xf32>) -> tensor<1x8x14x16xf32>
  %c = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<1x10x16x8xf32>, tensor<3x3x8x16xf32>) outs(%init : tensor<1x8x14x16xf32>) -> tensor<1x8x14x16xf32>
  return %c : tensor<1x8x14x16xf32>
}

func.func @depthwise(%x: tensor<1x17x29x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<1x8x14x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x8x14x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8x14x16xf32>) -> tensor<1x8x14x16xf32>
  %c = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %w : tensor<1x17x29x16xf32>, tensor<3x3x16xf32>) outs(%init : tensor<1x8x14x16xf32>) -> tensor<1x8x14x16xf32>
  return %c : tensor<1x8x14x16xf32>
}
