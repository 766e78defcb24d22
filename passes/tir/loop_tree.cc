// SPDX-License-Identifier: Apache-2.0
// The loops and blocks of a function, in program order.
#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

constexpr const char* kKinds[] = {"serial", "parallel", "vectorized", "unrolled", "thread_binding"};

void Collect(AnyView root, int64_t depth, ffi::Array<LoopNode>* nodes) {
  Walk(root, [&](AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.For") {
      nodes->push_back(LoopNode(depth, kKinds[Field(node, "kind").cast<int64_t>()],
                                Field(Field(node, "loop_var"), "name").cast<ffi::String>(),
                                ConstantOr(Field(node, "extent"), -1)));
      Collect(Field(node, "body"), depth + 1, nodes);
      return false;
    }
    if (key == "s_tir.SBlock") {
      nodes->push_back(LoopNode(depth, "block", Field(node, "name_hint").cast<ffi::String>(), -1));
      Collect(Field(node, "body"), depth + 1, nodes);
      return false;
    }
    return !DerivesFrom(node, "ir.Expr");
  });
}

}  // namespace

ffi::Array<LoopNode> LoopTree(Any prim_func) {
  ffi::Array<LoopNode> nodes;
  Collect(Field(prim_func, "body"), 0, &nodes);
  return nodes;
}

}  // namespace kope
