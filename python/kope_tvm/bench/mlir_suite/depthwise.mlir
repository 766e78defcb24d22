// SPDX-License-Identifier: Apache-2.0
func.func @depthwise(%image: tensor<1x57x57x64xf32>, %weight: tensor<3x3x64xf32>) -> tensor<1x28x28x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x28x28x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32>
  %out = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%image, %weight : tensor<1x57x57x64xf32>, tensor<3x3x64xf32>)
      outs(%init : tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32>
  return %out : tensor<1x28x28x64xf32>
}
