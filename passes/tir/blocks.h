// SPDX-License-Identifier: Apache-2.0
// What the analyses need of a function: its blocks with their axes, loads, products and operations.
#ifndef KOPE_TIR_BLOCKS_H_
#define KOPE_TIR_BLOCKS_H_

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tir/node.h"

namespace kope {

using VarSet = std::set<const ffi::Object*>;

enum class AxisKind { kSpatial, kReduce, kOther };

struct Axis {
  const ffi::Object* var;
  AxisKind kind;
  int64_t extent;  // -1 where symbolic
};

/*! \brief A read of a buffer: its indices, and the variables of each. */
struct Load {
  const ffi::Object* buffer;
  std::vector<VarSet> index_vars;
  ffi::Any node;
};

/*! \brief A multiplication of two values that were both loaded. */
struct Product {
  std::vector<Load> lhs;
  std::vector<Load> rhs;
  bool square;
};

struct Block {
  std::vector<Axis> axes;
  VarSet written;
  std::vector<Load> loads;
  std::vector<Product> products;
  double num_ops = 0;  // arithmetic of one iteration

  bool Reduces() const;
  double NumIterations() const;  // a symbolic extent counts once
  double Flops() const { return num_ops * NumIterations(); }
  VarSet Vars(AxisKind kind) const;
};

struct Function {
  std::deque<Block> blocks;  // in program order; the first is the root, which may be empty
  bool loops_on_data = false;
  std::set<std::string> calls;  // names of the intrinsics called
};

/*! \brief The variables that an expression uses. */
VarSet VarsOf(ffi::AnyView expr);

Function Collect(ffi::AnyView prim_func);

}  // namespace kope

#endif  // KOPE_TIR_BLOCKS_H_
