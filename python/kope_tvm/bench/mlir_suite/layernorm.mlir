// SPDX-License-Identifier: Apache-2.0
func.func @layernorm(%x: tensor<512x768xf32>, %gamma: tensor<768xf32>, %beta: tensor<768xf32>) -> tensor<512x768xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 768.0 : f32
  %epsilon = arith.constant 1.0e-05 : f32
  %row = tensor.empty() : tensor<512xf32>
  %table = tensor.empty() : tensor<512x768xf32>
  %none = linalg.fill ins(%zero : f32) outs(%row : tensor<512xf32>) -> tensor<512xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<512x768xf32>) outs(%none : tensor<512xf32>) dimensions = [1]
  %centred = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<512x768xf32>, tensor<512xf32>) outs(%table : tensor<512x768xf32>) {
  ^bb0(%value: f32, %total: f32, %unused: f32):
    %mean = arith.divf %total, %length : f32
    %distance = arith.subf %value, %mean : f32
    linalg.yield %distance : f32
  } -> tensor<512x768xf32>
  %squares = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%centred : tensor<512x768xf32>) outs(%none : tensor<512xf32>) {
  ^bb0(%value: f32, %total: f32):
    %square = arith.mulf %value, %value : f32
    %more = arith.addf %total, %square : f32
    linalg.yield %more : f32
  } -> tensor<512xf32>
  %out = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
                       affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%centred, %squares, %gamma, %beta : tensor<512x768xf32>, tensor<512xf32>, tensor<768xf32>, tensor<768xf32>)
      outs(%table : tensor<512x768xf32>) {
  ^bb0(%value: f32, %total: f32, %scale: f32, %shift: f32, %unused: f32):
    %variance = arith.divf %total, %length : f32
    %above = arith.addf %variance, %epsilon : f32
    %inverse = math.rsqrt %above : f32
    %normal = arith.mulf %value, %inverse : f32
    %scaled = arith.mulf %normal, %scale : f32
    %shifted = arith.addf %scaled, %shift : f32
    linalg.yield %shifted : f32
  } -> tensor<512x768xf32>
  return %out : tensor<512x768xf32>
}
