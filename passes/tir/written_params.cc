// SPDX-License-Identifier: Apache-2.0
// Parameters that a function may write to.
#include <set>

#include "tir/program.h"
#include "tir/static_checks.h"

namespace kope {

ffi::Array<int64_t> WrittenParams(Any prim_func) {
  Program program = Trace(prim_func);
  std::set<int64_t> params;
  for (const Access& access : program.accesses) {
    int param = program.storages[access.storage].param;
    if (access.use != Use::kRead && param >= 0) params.insert(param);
  }
  return ffi::Array<int64_t>(params.begin(), params.end());
}

}  // namespace kope
