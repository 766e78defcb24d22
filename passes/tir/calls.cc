// SPDX-License-Identifier: Apache-2.0
// Every operator that a function calls.
#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

// Of a call of something foreign, what is called: its first argument.
std::string Foreign(AnyView call, const std::string& name) {
  constexpr std::string_view kPrefix = "tirx.call_";
  if (std::string_view(name).substr(0, kPrefix.size()) != kPrefix &&
      name.find("call_packed") == std::string::npos &&
      name.find("call_cpacked") == std::string::npos) {
    return "";
  }
  ffi::Array<Any> args = Items(call, "args");
  if (args.empty()) return "";
  if (Is(args[0], "ir.StringImm")) {
    return ":" + std::string(Field(args[0], "value").cast<ffi::String>());
  }
  return Is(args[0], "ir.IntImm") ? ":" + std::to_string(ConstantOr(args[0], 0)) : "";
}

}  // namespace

ffi::Array<ffi::String> Calls(Any prim_func) {
  std::set<std::string> names;
  Walk(Field(prim_func, "body"), [&](AnyView node) {
    if (Is(node, "ir.Call")) {
      std::string name = OperatorName(node);
      if (name.empty()) name = std::string(TypeKey(Field(node, "op")));
      names.insert(name + Foreign(node, name));
    } else if (Is(node, "tirx.TilePrimitiveCall")) {
      names.insert("tirx.TilePrimitiveCall");
    }
    return !Is(node, "ir.Var");
  });
  return Sorted(names);
}

}  // namespace kope
