// SPDX-License-Identifier: Apache-2.0
// What takes, makes or compares an address.
#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

bool IsComparison(std::string_view key) {
  return key == "prim.EQ" || key == "prim.NE" || key == "prim.LT" || key == "prim.LE" ||
         key == "prim.GT" || key == "prim.GE";
}

class Collector {
 public:
  void Node(AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.DeclBuffer") {
      found.insert(std::string(key));
    } else if (key == "ir.Call") {
      Call(node);
    } else if (IsComparison(key)) {
      if (IsAddress(Field(node, "a")) || IsAddress(Field(node, "b"))) {
        found.insert(std::string(key));
      }
    } else if (key == "prim.Cast") {
      if (IsAddress(node) || IsAddress(Field(node, "value"))) found.insert(std::string(key));
    }
  }

  std::set<std::string> found;

 private:
  static bool IsAddress(AnyView expr) { return ScalarDtype(expr) == "handle"; }

  void Call(AnyView node) {
    bool address = IsAddress(node);
    for (const Any& arg : Items(node, "args")) {
      address = address || (DerivesFrom(arg, "ir.Expr") && IsAddress(arg));
    }
    if (!address) return;
    std::string name = OperatorName(node);
    found.insert(name.empty() ? "ir.Call" : name);
  }
};

}  // namespace

ffi::Array<ffi::String> Addresses(Any prim_func) {
  Collector collector;
  Walk(Field(prim_func, "body"), [&](AnyView node) {
    collector.Node(node);
    return !Is(node, "ir.Var");
  });
  return Sorted(collector.found);
}

}  // namespace kope
