// SPDX-License-Identifier: Apache-2.0
#include "tir/blocks.h"

#include <tvm/ffi/extra/structural_equal.h>
#include <tvm/ffi/extra/structural_visit.h>

#include <string_view>

namespace kope {
namespace {

using ffi::AnyView;
using ffi::Expected;
using ffi::WalkOrder;
using ffi::WalkResult;

const std::set<std::string_view>& ArithmeticNodes() {
  static const std::set<std::string_view> keys = {
      "prim.Add",      "prim.Sub",      "prim.Mul", "prim.Div", "prim.Mod",
      "prim.FloorDiv", "prim.FloorMod", "prim.Min", "prim.Max",
  };
  return keys;
}

// Calls that choose, hint or reinterpret, and compute nothing.
const std::set<std::string_view>& FreeCalls() {
  static const std::set<std::string_view> names = {
      "if_then_else", "likely", "reinterpret", "address_of", "ret", "max_value", "min_value",
  };
  return names;
}

std::string CallName(AnyView call) {
  ffi::Any op = Field(call, "op");
  if (!Is(op, "ir.Op")) return "call";
  std::string name = Field(op, "name").cast<ffi::String>();
  return name.substr(name.rfind('.') + 1);
}

Load MakeLoad(AnyView node) {
  Load load{Id(Field(node, "source")), {}, node};
  for (const ffi::Any& index : Items(node, "indices")) load.index_vars.push_back(VarsOf(index));
  return load;
}

// Walks everything of an expression that computes a value: no index, no condition.
template <typename Callback>
void WalkValue(AnyView expr, const Callback& on_node) {
  ffi::StructuralWalk<WalkOrder::kPreOrder>(expr, [&](AnyView node) -> Expected<WalkResult> {
    if (Is(node, "ir.Var")) return WalkResult::Skip();
    on_node(node);
    if (Is(node, "ir.TensorLoad")) return WalkResult::Skip();
    if (Is(node, "prim.Select")) {
      WalkValue(Field(node, "true_value"), on_node);
      WalkValue(Field(node, "false_value"), on_node);
      return WalkResult::Skip();
    }
    if (Is(node, "ir.Call") && CallName(node) == "if_then_else") {
      ffi::Array<ffi::Any> args = Items(node, "args");
      WalkValue(args[1], on_node);
      WalkValue(args[2], on_node);
      return WalkResult::Skip();
    }
    return WalkResult::Advance();
  });
}

std::vector<Load> LoadsOf(AnyView expr, const VarSet& written) {
  std::vector<Load> loads;
  WalkValue(expr, [&](AnyView node) {
    if (!Is(node, "ir.TensorLoad")) return;
    Load load = MakeLoad(node);
    if (written.count(load.buffer) == 0) loads.push_back(std::move(load));
  });
  return loads;
}

class Collector {
 public:
  explicit Collector(Function* function) : function_(function) {}

  void Statement(AnyView root, Block* block) {
    ffi::StructuralWalk<WalkOrder::kPreOrder>(root, [&](AnyView node) -> Expected<WalkResult> {
      return Visit(node, block) ? WalkResult::Advance() : WalkResult::Skip();
    });
  }

  void Enter(AnyView node) {
    Block& block = function_->blocks.emplace_back();
    for (const ffi::Any& axis : Items(node, "iter_vars")) AddAxis(axis, &block);
    for (const ffi::Any& write : Items(node, "writes")) {
      block.written.insert(Id(Field(write, "source")));
    }
    Statement(Field(node, "body"), &block);
  }

 private:
  // Whether to go on into the node's children.
  bool Visit(AnyView node, Block* block) {
    if (Is(node, "s_tir.SBlock")) {
      Enter(node);
      return false;
    }
    if (Is(node, "tirx.BufferStore")) {
      block->written.insert(Id(Field(node, "buffer")));
      Value(Field(node, "value"), block);
      return false;
    }
    if (Is(node, "tirx.Bind")) {
      Value(Field(node, "value"), block);
      return false;
    }
    if (Is(node, "tirx.While")) function_->loops_on_data = true;
    return !DerivesFrom(node, "ir.Expr");
  }

  void Value(AnyView expr, Block* block) {
    WalkValue(expr, [&](AnyView node) { Count(node, block); });
    for (Load& load : LoadsOf(expr, block->written)) block->loads.push_back(std::move(load));
  }

  void Count(AnyView node, Block* block) {
    std::string_view key = TypeKey(node);
    if (ArithmeticNodes().count(key) != 0) block->num_ops += 1;
    if (key == "prim.Mul") AddProduct(node, block);
    if (key != "ir.Call") return;
    std::string name = CallName(node);
    if (FreeCalls().count(name) == 0) block->num_ops += 1;
    function_->calls.insert(std::move(name));
  }

  static void AddProduct(AnyView mul, Block* block) {
    ffi::Any lhs = Field(mul, "a");
    ffi::Any rhs = Field(mul, "b");
    Product product{LoadsOf(lhs, block->written), LoadsOf(rhs, block->written), false};
    if (product.lhs.empty() || product.rhs.empty()) return;
    product.square = ffi::StructuralEqual::Equal(lhs, rhs);
    block->products.push_back(std::move(product));
  }

  static void AddAxis(AnyView axis, Block* block) {
    int64_t type = Field(axis, "iter_type").cast<int64_t>();
    AxisKind kind = type == 0   ? AxisKind::kSpatial
                    : type == 2 ? AxisKind::kReduce
                                : AxisKind::kOther;
    int64_t extent = ConstantOr(Field(Field(axis, "dom"), "extent"), -1);
    block->axes.push_back({Id(Field(axis, "var")), kind, extent});
  }

  Function* function_;
};

}  // namespace

bool Block::Reduces() const {
  for (const Axis& axis : axes) {
    if (axis.kind == AxisKind::kReduce) return true;
  }
  return false;
}

double Block::NumIterations() const {
  double count = 1;
  for (const Axis& axis : axes) count *= axis.extent < 0 ? 1.0 : static_cast<double>(axis.extent);
  return count;
}

VarSet Block::Vars(AxisKind kind) const {
  VarSet vars;
  for (const Axis& axis : axes) {
    if (axis.kind == kind) vars.insert(axis.var);
  }
  return vars;
}

VarSet VarsOf(AnyView expr) {
  VarSet vars;
  ffi::StructuralWalk<WalkOrder::kPreOrder>(expr, [&](AnyView node) -> Expected<WalkResult> {
    if (!Is(node, "ir.Var")) return WalkResult::Advance();
    vars.insert(Id(node));
    return WalkResult::Skip();
  });
  return vars;
}

Function Collect(AnyView prim_func) {
  Function function;
  Collector collector(&function);
  ffi::Any body = Field(prim_func, "body");
  if (Is(body, "s_tir.SBlockRealize")) {
    ffi::Any root = Field(body, "block");
    if (Items(root, "iter_vars").empty()) {
      collector.Enter(root);
      return function;
    }
  }
  collector.Statement(body, &function.blocks.emplace_back());
  return function;
}

}  // namespace kope
