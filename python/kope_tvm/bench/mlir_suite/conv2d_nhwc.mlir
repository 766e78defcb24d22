// SPDX-License-Identifier: Apache-2.0
// A padded 3x3 convolution, a bias a channel and relu.
func.func @conv2d_nhwc(%image: tensor<1x28x28x32xf32>, %weight: tensor<3x3x32x64xf32>,
    %bias: tensor<64xf32>) -> tensor<1x28x28x64xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %image low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x28x28x32xf32> to tensor<1x30x30x32xf32>
  %empty = tensor.empty() : tensor<1x28x28x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32>
  %conv = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%padded, %weight : tensor<1x30x30x32xf32>, tensor<3x3x32x64xf32>)
      outs(%init : tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32>
  %out = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (c)>,
                       affine_map<(n, h, w, c) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%conv, %bias : tensor<1x28x28x64xf32>, tensor<64xf32>) outs(%empty : tensor<1x28x28x64xf32>) {
  ^bb0(%x: f32, %b: f32, %unused: f32):
    %sum = arith.addf %x, %b : f32
    %relu = arith.maximumf %sum, %zero : f32
    linalg.yield %relu : f32
  } -> tensor<1x28x28x64xf32>
  return %out : tensor<1x28x28x64xf32>
}
