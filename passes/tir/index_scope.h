// SPDX-License-Identifier: Apache-2.0
// What index expressions and conditions on them come to, given what their variables stand for.
#ifndef KOPE_TIR_INDEX_SCOPE_H_
#define KOPE_TIR_INDEX_SCOPE_H_

#include <string_view>
#include <unordered_map>
#include <vector>

#include "tir/linear.h"
#include "tir/node.h"

namespace kope {

/*! \brief Under which something happens: each form is at least 0. */
struct Guards {
  std::vector<Linear> forms;
  bool unknown = false;  // there is a condition beside them
};

class IndexScope {
 public:
  explicit IndexScope(Digits* digits) : digits_(digits) {}

  void Bind(ffi::AnyView var, MaybeLinear value);

  /*! \brief An integer expression; none where it is not linear. */
  MaybeLinear Value(ffi::AnyView expr);

  /*! \brief Adds what holds where `condition` does, or where it does not. */
  void Require(ffi::AnyView condition, bool negated, Guards* guards);

 private:
  void Compare(ffi::AnyView node, std::string_view key, bool negated, Guards* guards);
  MaybeLinear RampValue(ffi::AnyView ramp);
  MaybeLinear Arithmetic(ffi::AnyView expr, std::string_view key);

  Digits* digits_;
  std::unordered_map<const ffi::Object*, MaybeLinear> values_;
};

}  // namespace kope

#endif  // KOPE_TIR_INDEX_SCOPE_H_
