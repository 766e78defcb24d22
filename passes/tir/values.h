// SPDX-License-Identifier: Apache-2.0
// Walks over what a function computes, as opposed to where it puts it and when.
#ifndef KOPE_TIR_VALUES_H_
#define KOPE_TIR_VALUES_H_

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/structural_visit.h>

#include <set>
#include <string>

#include "tir/node.h"

namespace kope {

/*! \brief The name of the operator that an ir.Call calls; empty where it calls no operator. */
inline std::string OperatorName(ffi::AnyView call) {
  ffi::Any op = Field(call, "op");
  return Is(op, "ir.Op") ? std::string(Field(op, "name").cast<ffi::String>()) : std::string();
}

/*! \brief Calls `on_node` with every node; it returns whether to go on into the node's children. */
template <typename Callback>
void Walk(ffi::AnyView root, const Callback& on_node) {
  using ffi::WalkResult;
  ffi::StructuralWalk<ffi::WalkOrder::kPreOrder>(
      root, [&](ffi::AnyView node) -> ffi::Expected<WalkResult> {
        return on_node(node) ? WalkResult::Advance() : WalkResult::Skip();
      });
}

/*! \brief Every node of an expression that is part of its value: no index, no condition. */
template <typename Callback>
void WalkValue(ffi::AnyView expr, const Callback& on_node) {
  Walk(expr, [&](ffi::AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "ir.Var") return false;
    on_node(node, key);
    if (key == "ir.TensorLoad") return false;
    if (key == "prim.Select") {
      WalkValue(Field(node, "true_value"), on_node);
      WalkValue(Field(node, "false_value"), on_node);
      return false;
    }
    if (key == "ir.Call" && OperatorName(node) == "prim.if_then_else") {
      ffi::Array<ffi::Any> args = Items(node, "args");
      WalkValue(args[1], on_node);
      WalkValue(args[2], on_node);
      return false;
    }
    return true;
  });
}

/*! \brief Calls `on_value` with each statement that has a `value`, and that value. */
template <typename Callback>
void WalkStatementValues(ffi::AnyView root, const Callback& on_value) {
  Walk(root, [&](ffi::AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.BufferStore" || key == "tirx.Bind" || key == "tirx.Evaluate") {
      on_value(node, Field(node, "value"));
      return false;
    }
    return key == "tirx.PrimFunc" || !DerivesFrom(node, "ir.Expr");
  });
}

/*! \brief The dtype of one lane of an expression; `handle` for an address, empty for others. */
inline std::string ScalarDtype(ffi::AnyView expr) {
  ffi::Any type = Field(expr, "ty");
  if (Is(type, "ir.PointerType")) return "handle";
  if (!Is(type, "ir.PrimType")) return "";
  DLDataType dtype = Field(type, "dtype").cast<DLDataType>();
  dtype.lanes = 1;
  return ffi::DLDataTypeToString(dtype);
}

inline ffi::Array<ffi::String> Sorted(const std::set<std::string>& names) {
  ffi::Array<ffi::String> sorted;
  for (const std::string& name : names) sorted.push_back(name);
  return sorted;
}

}  // namespace kope

#endif  // KOPE_TIR_VALUES_H_
