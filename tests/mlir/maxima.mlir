// SPDX-License-Identifier: Apache-2.0
#id = affine_map<(i) -> (i)>
func.func @maxima(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %e = tensor.empty() : tensor<3xf32>
  %max = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.maximumf %x, %y : f32
    linalg.yield %m : f32
  } -> tensor<3xf32>
  %num = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %m = arith.minnumf %x, %y : f32
    %n = arith.cmpf uno, %m, %x : f32
    %r = arith.select %n, %y, %m : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  return %max, %num : tensor<3xf32>, tensor<3xf32>
}
