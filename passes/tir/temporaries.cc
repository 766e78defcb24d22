// SPDX-License-Identifier: Apache-2.0
// How much memory a function asks for beside its parameters.
#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

// A symbolic extent counts once.
double NumBytes(AnyView buffer) {
  Any type = Field(buffer, "ty");
  DLDataType dtype = Field(Field(type, "dtype"), "dtype").cast<DLDataType>();
  double num_bytes = static_cast<double>(dtype.bits * dtype.lanes) / 8;
  for (const Any& extent : Items(type, "shape")) {
    num_bytes *= static_cast<double>(ConstantOr(extent, 1));
  }
  return num_bytes;
}

}  // namespace

double TemporaryBytes(Any prim_func) {
  double num_bytes = 0;
  Walk(Field(prim_func, "body"), [&](AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.AllocBuffer") num_bytes += NumBytes(Field(node, "buffer"));
    if (key == "s_tir.SBlock") {
      for (const Any& buffer : Items(node, "alloc_buffers")) num_bytes += NumBytes(buffer);
    }
    return !DerivesFrom(node, "ir.Expr");
  });
  return num_bytes;
}

}  // namespace kope
