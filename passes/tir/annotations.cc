// SPDX-License-Identifier: Apache-2.0
// What a function tells the compiler beside what it computes.
#include <tvm/ffi/container/map.h>

#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

void AddKeys(AnyView node, std::set<std::string>* keys) {
  Any annotations = Field(node, "annotations");
  for (const auto& [key, value] : annotations.cast<ffi::Map<ffi::String, Any>>()) {
    keys->insert(key);
  }
}

}  // namespace

ffi::Array<ffi::String> Annotations(Any prim_func) {
  std::set<std::string> keys;
  Walk(Field(prim_func, "body"), [&](AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.For" || key == "s_tir.SBlock" || key == "tirx.AllocBuffer") {
      AddKeys(node, &keys);
    } else if (key == "tirx.AttrStmt") {
      keys.insert(Field(node, "attr_key").cast<ffi::String>());
    }
    return !DerivesFrom(node, "ir.Expr");
  });
  return Sorted(keys);
}

}  // namespace kope
