// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tir/features.h"

namespace kope {
namespace {

bool Intersects(const VarSet& lhs, const VarSet& rhs) {
  return std::any_of(lhs.begin(), lhs.end(), [&](auto var) { return rhs.count(var) != 0; });
}

VarSet VarsOf(const std::vector<Load>& loads) {
  VarSet vars;
  for (const Load& load : loads) {
    for (const VarSet& index : load.index_vars) vars.insert(index.begin(), index.end());
  }
  return vars;
}

VarSet Only(const VarSet& vars, const VarSet& allowed) {
  VarSet kept;
  std::set_intersection(vars.begin(), vars.end(), allowed.begin(), allowed.end(),
                        std::inserter(kept, kept.end()));
  return kept;
}

// The axes of a reduction by kind; `reduce` leaves out those of extent 1.
struct Axes {
  explicit Axes(const Block& block)
      : spatial(block.Vars(AxisKind::kSpatial)), reduce(block.Vars(AxisKind::kReduce)) {
    for (const Axis& axis : block.axes) {
      if (axis.kind == AxisKind::kReduce && axis.extent != 1) long_reduce.insert(axis.var);
    }
  }

  VarSet spatial;
  VarSet reduce;
  VarSet long_reduce;
};

// An index such as `h * stride + rh`: its spatial variable moves over the data, not the weights.
bool IsWindow(const VarSet& index, const VarSet& weight_vars, const Axes& axes) {
  if (!Intersects(index, axes.reduce)) return false;
  VarSet moving = Only(index, axes.spatial);
  return std::any_of(moving.begin(), moving.end(),
                     [&](auto var) { return weight_vars.count(var) == 0; });
}

// `conv2d`, `depthwise`, or null where `data` is not read through a window.
const char* ConvolutionClass(const std::vector<Load>& data, const std::vector<Load>& weights,
                             const Axes& axes) {
  VarSet weight_vars = VarsOf(weights);
  bool window = false;
  bool reduces_channel = false;
  for (const Load& load : data) {
    for (const VarSet& index : load.index_vars) {
      if (IsWindow(index, weight_vars, axes)) {
        window = true;
      } else if (Intersects(index, axes.long_reduce)) {
        reduces_channel = true;
      }
    }
  }
  if (!window) return nullptr;
  bool shares_channel = Intersects(Only(VarsOf(data), axes.spatial), weight_vars);
  return !reduces_channel && shares_channel ? "depthwise" : "conv2d";
}

const char* ProductClass(const Product& product, const Axes& axes) {
  if (product.square) return nullptr;
  if (auto* name = ConvolutionClass(product.lhs, product.rhs, axes)) return name;
  if (auto* name = ConvolutionClass(product.rhs, product.lhs, axes)) return name;
  VarSet lhs = VarsOf(product.lhs);
  VarSet rhs = VarsOf(product.rhs);
  if (!Intersects(lhs, axes.reduce) || !Intersects(rhs, axes.reduce)) return nullptr;
  if (axes.reduce.size() >= 3) return "conv2d";
  return Only(lhs, axes.spatial) != Only(rhs, axes.spatial) ? "matmul" : nullptr;
}

bool ReadsThroughWindow(const Block& block, const Axes& axes) {
  for (const Load& load : block.loads) {
    for (const VarSet& index : load.index_vars) {
      if (IsWindow(index, {}, axes)) return true;
    }
  }
  return false;
}

bool HasSquare(const Function& function) {
  for (const Block& block : function.blocks) {
    for (const Product& product : block.products) {
      if (product.square) return true;
    }
  }
  return function.calls.count("pow") != 0;
}

const char* ReductionClass(const Function& function, const Block& anchor) {
  Axes axes(anchor);
  for (const Product& product : anchor.products) {
    if (auto* name = ProductClass(product, axes)) return name;
  }
  auto num_reductions = std::count_if(function.blocks.begin(), function.blocks.end(),
                                      [](const Block& block) { return block.Reduces(); });
  if (num_reductions >= 2 && function.calls.count("exp") != 0) return "softmax";
  if (ReadsThroughWindow(anchor, axes)) return "pool";
  bool has_root = function.calls.count("sqrt") != 0 || function.calls.count("rsqrt") != 0;
  return has_root && HasSquare(function) ? "norm" : "reduce";
}

bool IsElementwise(const Function& function) {
  for (const Block& block : function.blocks) {
    for (const Axis& axis : block.axes) {
      if (axis.kind != AxisKind::kSpatial) return false;
    }
  }
  return function.blocks.size() > 1;
}

}  // namespace

const Block* AnchorBlock(const Function& function) {
  const Block* anchor = nullptr;
  for (size_t i = 1; i < function.blocks.size(); ++i) {
    const Block& block = function.blocks[i];
    bool better = anchor == nullptr || block.Reduces() > anchor->Reduces() ||
                  (block.Reduces() == anchor->Reduces() && block.Flops() >= anchor->Flops());
    if (better) anchor = &block;
  }
  return anchor;
}

const char* OpClass(const Function& function, const Block* anchor) {
  if (function.loops_on_data || anchor == nullptr) return "other";
  if (anchor->Reduces()) return ReductionClass(function, *anchor);
  return IsElementwise(function) ? "elementwise" : "other";
}

}  // namespace kope
