// SPDX-License-Identifier: Apache-2.0
// A function as the accesses it makes to its buffers, in program order.
#ifndef KOPE_TIR_PROGRAM_H_
#define KOPE_TIR_PROGRAM_H_

#include <string>
#include <vector>

#include "tir/index_scope.h"
#include "tir/node.h"

namespace kope {

struct Storage {
  std::string name;
  std::vector<int64_t> shape;  // -1 where symbolic
  int param;                   // its place among the parameters, -1 for a temporary

  int64_t NumElements() const;  // -1 where symbolic, or too many to count
};

/*! \brief tirx.ForKind. */
enum class LoopKind { kSerial, kParallel, kVectorized, kUnrolled, kThreadBinding };

struct Loop {
  std::string name;
  int digit;  // -1 where its bounds are symbolic
  LoopKind kind;
  bool empty;
};

enum class Use { kRead, kWrite, kOpaque };

struct Access {
  Use use;
  int storage;
  std::vector<MaybeLinear> indices;
  bool is_vector;
  Guards guards;
  std::vector<int> loops;  // from the outermost
  int order;               // of its statement; what a statement reads comes before what it writes
};

struct Program {
  Digits digits;
  std::vector<Loop> loops;
  std::vector<Storage> storages;
  std::vector<Access> accesses;
  bool jumps = false;  // statements may be left out in ways that are not followed
};

Program Trace(ffi::AnyView prim_func);

/*! \brief Elements that an access touches, at most. */
struct Box {
  std::vector<Interval> dims;
  bool exact = true;  // touches each of them, once at least
  bool empty = false;
};

/*! \brief The box of an access while the digits of `fixed` loops stand at their first value. */
Box BoxOf(const Program& program, const Access& access, const std::vector<int>& fixed = {});

}  // namespace kope

#endif  // KOPE_TIR_PROGRAM_H_
