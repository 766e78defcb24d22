// SPDX-License-Identifier: Apache-2.0
// Constants in what a function computes: many of them are a table of results.
#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {

int64_t Literals(Any prim_func) {
  std::set<int64_t> integers;
  std::set<double> floats;
  bool has_nan = false;
  WalkStatementValues(Field(prim_func, "body"), [&](AnyView, AnyView value) {
    WalkValue(value, [&](AnyView node, std::string_view key) {
      if (key == "ir.IntImm") integers.insert(ConstantOr(node, 0));
      if (key != "ir.FloatImm") return;
      double number = Field(node, "value").cast<double>();
      if (number == number) {
        floats.insert(number);
      } else {
        has_nan = true;
      }
    });
  });
  return static_cast<int64_t>(integers.size() + floats.size()) + (has_nan ? 1 : 0);
}

}  // namespace kope
