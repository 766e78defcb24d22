// SPDX-License-Identifier: Apache-2.0
// How much a function computes and moves, as often as its loops run.
#include <algorithm>

#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

int64_t Lanes(AnyView expr) {
  Any type = Field(expr, "ty");
  return Is(type, "ir.PrimType") ? Field(type, "dtype").cast<DLDataType>().lanes : 1;
}

double NumBytes(AnyView expr) {
  Any type = Field(expr, "ty");
  if (!Is(type, "ir.PrimType")) return 0;
  DLDataType dtype = Field(type, "dtype").cast<DLDataType>();
  return static_cast<double>(dtype.bits * dtype.lanes) / 8;
}

bool IsArithmetic(std::string_view key) {
  return key == "prim.Add" || key == "prim.Sub" || key == "prim.Mul" || key == "prim.Div" ||
         key == "prim.Mod" || key == "prim.FloorDiv" || key == "prim.FloorMod" ||
         key == "prim.Min" || key == "prim.Max";
}

// A machine instruction multiplies and adds each lane of its widest argument.
double InstructionFlops(AnyView call) {
  int64_t lanes = Lanes(call);
  for (const Any& arg : Items(call, "args")) {
    if (DerivesFrom(arg, "ir.Expr")) lanes = std::max(lanes, Lanes(arg));
  }
  return 2 * static_cast<double>(lanes);
}

bool IsInstruction(const std::string& name) {
  return name == "tirx.call_llvm_pure_intrin" || name == "tirx.call_llvm_intrin";
}

bool Computes(const std::string& name) {
  return name != "prim.if_then_else" && name != "tirx.reinterpret" && name != "tirx.likely";
}

class Counter {
 public:
  double flops = 0;
  double bytes_loaded = 0;
  double bytes_stored = 0;

  void Statement(AnyView root, double times) {
    Walk(root, [&](AnyView node) {
      std::string_view key = TypeKey(node);
      if (key == "tirx.For") {
        // A symbolic extent counts once.
        int64_t extent = ConstantOr(Field(node, "extent"), 1);
        Statement(Field(node, "body"), times * static_cast<double>(extent));
        return false;
      }
      if (key == "tirx.BufferStore") bytes_stored += times * NumBytes(Field(node, "value"));
      if (key == "tirx.BufferStore" || key == "tirx.Bind" || key == "tirx.Evaluate") {
        Value(Field(node, "value"), times);
        return false;
      }
      if (key == "s_tir.SBlock") {
        Block(node, times);
        return false;
      }
      return !DerivesFrom(node, "ir.Expr");
    });
  }

 private:
  static double Flops(AnyView node, std::string_view key) {
    if (IsArithmetic(key)) return static_cast<double>(Lanes(node));
    if (key != "ir.Call") return 0;
    std::string name = OperatorName(node);
    if (IsInstruction(name)) return InstructionFlops(node);
    return Computes(name) ? static_cast<double>(Lanes(node)) : 0;
  }

  // A block's `init` runs once for all of its reduction: it is left out.
  void Block(AnyView block, double times) { Statement(Field(block, "body"), times); }

  void Value(AnyView expr, double times) {
    WalkValue(expr, [&](AnyView node, std::string_view key) {
      if (key == "ir.TensorLoad") bytes_loaded += times * NumBytes(node);
      flops += times * Flops(node, key);
    });
  }
};

}  // namespace

ffi::Tuple<double, double, double> Counts(Any prim_func) {
  Counter counter;
  counter.Statement(Field(prim_func, "body"), 1);
  return ffi::Tuple<double, double, double>(counter.flops, counter.bytes_loaded,
                                            counter.bytes_stored);
}

}  // namespace kope
