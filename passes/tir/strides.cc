// SPDX-License-Identifier: Apache-2.0
#include "tir/strides.h"

#include <cstdlib>
#include <optional>
#include <utility>

namespace kope {
namespace {

using ffi::Any;
using ffi::AnyView;
using Steps = std::optional<int64_t>;

Steps StepsOf(AnyView expr, const ffi::Object* var);

// Of a sum, or of a difference where `sign` is -1.
Steps OfSum(AnyView expr, const ffi::Object* var, int64_t sign) {
  Steps a = StepsOf(Field(expr, "a"), var);
  Steps b = StepsOf(Field(expr, "b"), var);
  if (!a || !b) return std::nullopt;
  return *a + sign * *b;
}

Steps OfProduct(AnyView expr, const ffi::Object* var) {
  Any a = Field(expr, "a");
  Any b = Field(expr, "b");
  if (Is(a, "ir.IntImm")) std::swap(a, b);
  Steps steps = StepsOf(a, var);
  if (!steps || !Is(b, "ir.IntImm")) return std::nullopt;
  return *steps * ConstantOr(b, 1);
}

// By how much the integer grows with each step of the variable; none where that differs.
Steps StepsOf(AnyView expr, const ffi::Object* var) {
  if (VarsOf(expr).count(var) == 0) return 0;
  if (Is(expr, "ir.Var")) return 1;
  if (Is(expr, "prim.Add")) return OfSum(expr, var, 1);
  if (Is(expr, "prim.Sub")) return OfSum(expr, var, -1);
  if (Is(expr, "prim.Mul")) return OfProduct(expr, var);
  return std::nullopt;
}

int64_t StrideOf(AnyView load, const ffi::Object* var) {
  ffi::Array<Any> shape = Items(Field(Field(load, "source"), "ty"), "shape");
  ffi::Array<Any> indices = Items(load, "indices");
  int64_t stride = 0;
  int64_t row = 1;  // elements between neighbours along the dimension; -1 where symbolic
  for (size_t i = indices.size(); i-- > 0;) {
    Steps steps = StepsOf(indices[i], var);
    if (!steps || (*steps != 0 && row < 0)) return -1;
    stride += *steps * row;
    int64_t extent = ConstantOr(shape[i], -1);
    row = row < 0 || extent < 0 ? -1 : row * extent;
  }
  return std::abs(stride);
}

const ffi::Object* Innermost(const Block& block) {
  for (auto axis = block.axes.rbegin(); axis != block.axes.rend(); ++axis) {
    if (axis->extent != 1) return axis->var;
  }
  return block.axes.empty() ? nullptr : block.axes.back().var;
}

}  // namespace

ffi::Array<int64_t> Strides(const Block& block) {
  ffi::Array<int64_t> strides;
  const ffi::Object* var = Innermost(block);
  if (var == nullptr) return strides;
  for (const Load& load : block.loads) strides.push_back(StrideOf(load.node, var));
  return strides;
}

}  // namespace kope
