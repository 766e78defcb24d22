// SPDX-License-Identifier: Apache-2.0
// The dtypes that a function computes in, adds up in and converts between.
#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

bool IsArithmetic(std::string_view key) {
  return key == "prim.Add" || key == "prim.Sub" || key == "prim.Mul" || key == "prim.Div" ||
         key == "prim.Mod" || key == "prim.FloorDiv" || key == "prim.FloorMod";
}

DLDataType DtypeOf(AnyView expr) {
  Any type = Field(expr, "ty");
  if (!Is(type, "ir.PrimType")) return DLDataType{kDLOpaqueHandle, 0, 0};
  return Field(type, "dtype").cast<DLDataType>();
}

bool IsInteger(const DLDataType& dtype) { return dtype.code == kDLInt || dtype.code == kDLUInt; }

// Bits of an integer that was widened; more than any dtype has for anything else.
int WidenedBits(AnyView expr) {
  constexpr int kNone = 1 << 10;
  if (!Is(expr, "prim.Cast")) return kNone;
  DLDataType dtype = DtypeOf(Field(expr, "value"));
  return IsInteger(dtype) ? dtype.bits : kNone;
}

// A product of widened integers that it holds whatever they are.
bool IsExactProduct(AnyView node, std::string_view key) {
  if (key != "prim.Mul") return false;
  DLDataType dtype = DtypeOf(node);
  return IsInteger(dtype) &&
         WidenedBits(Field(node, "a")) + WidenedBits(Field(node, "b")) <= dtype.bits;
}

// Calls that give a value they were given.
bool PassesOn(const std::string& name) {
  return name == "prim.if_then_else" || name == "tirx.reinterpret" || name == "tirx.likely";
}

class Collector {
 public:
  void Statement(AnyView statement, AnyView value) {
    bool adds = false;
    bool loads_own = false;
    const ffi::Object* own =
        Is(statement, "tirx.BufferStore") ? Id(Field(statement, "buffer")) : nullptr;
    WalkValue(value, [&](AnyView node, std::string_view key) {
      adds = adds || key == "prim.Add" || key == "prim.Sub";
      loads_own = loads_own || (key == "ir.TensorLoad" && Id(Field(node, "source")) == own);
      Node(node, key);
    });
    if (adds && loads_own) found.insert("accumulate " + ScalarDtype(value));
  }

  std::set<std::string> found;

 private:
  void Node(AnyView node, std::string_view key) {
    if (key == "prim.Cast") {
      found.insert("cast " + ScalarDtype(Field(node, "value")) + " " + ScalarDtype(node));
    } else if (IsComputed(node, key)) {
      found.insert("compute " + ScalarDtype(node));
    }
  }

  static bool IsComputed(AnyView node, std::string_view key) {
    if (IsArithmetic(key)) return !IsExactProduct(node, key);
    return key == "ir.Call" && !PassesOn(OperatorName(node)) && ScalarDtype(node) != "handle";
  }
};

}  // namespace

ffi::Array<ffi::String> Dtypes(Any prim_func) {
  Collector collector;
  WalkStatementValues(Field(prim_func, "body"), [&](AnyView statement, AnyView value) {
    collector.Statement(statement, value);
  });
  return Sorted(collector.found);
}

}  // namespace kope
