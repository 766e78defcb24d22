// SPDX-License-Identifier: Apache-2.0
// Elements that several iterations of a parallel loop write.
//
// A temporary that only one iteration's statements use is that iteration's own: TVM allocates it
// there.
#include <algorithm>
#include <set>

#include "tir/program.h"
#include "tir/static_checks.h"

namespace kope {
namespace {

// The loops around everything that uses a buffer; none around a parameter.
std::vector<std::vector<int>> LoopsAround(const Program& program) {
  std::vector<std::vector<int>> around(program.storages.size());
  std::vector<bool> seen(program.storages.size());
  for (const Access& access : program.accesses) {
    std::vector<int>& common = around[access.storage];
    if (program.storages[access.storage].param >= 0) continue;
    if (!seen[access.storage]) common = access.loops;
    seen[access.storage] = true;
    size_t depth = 0;
    while (depth < std::min(common.size(), access.loops.size()) &&
           common[depth] == access.loops[depth]) {
      ++depth;
    }
    common.resize(depth);
  }
  return around;
}

class Checker {
 public:
  Checker(const Program& program, const Access& write) : program_(program), write_(write) {
    for (const MaybeLinear& index : write.indices) {
      known_ = known_ && index;
      if (index) Use(*index);
    }
    for (const Linear& form : write.guards.forms) Use(form);
    known_ = known_ && !write.guards.unknown;
    for (int loop : write.loops) {
      known_ = known_ && program.loops[loop].digit >= 0 && !program.loops[loop].empty;
    }
  }

  bool IsRace(int loop) const {
    if (!known_ || program_.loops[loop].kind != LoopKind::kParallel) return false;
    Linear digits = program_.digits.Unsplit({0, {{program_.loops[loop].digit, 1}}});
    return std::any_of(digits.terms.begin(), digits.terms.end(),
                       [&](const auto& term) { return used_.count(term.first) == 0; });
  }

 private:
  void Use(const Linear& form) {
    for (const auto& term : program_.digits.Unsplit(form).terms) used_.insert(term.first);
  }

  const Program& program_;
  const Access& write_;
  std::set<int> used_;
  bool known_ = true;
};

}  // namespace

ffi::Array<Race> Races(Any prim_func) {
  Program program = Trace(prim_func);
  ffi::Array<Race> found;
  std::vector<std::vector<int>> around = LoopsAround(program);
  for (const Access& access : program.accesses) {
    if (access.use != Use::kWrite || program.jumps) continue;
    Checker checker(program, access);
    for (size_t depth = around[access.storage].size(); depth < access.loops.size(); ++depth) {
      if (!checker.IsRace(access.loops[depth])) continue;
      found.push_back(
          Race(program.storages[access.storage].name, program.loops[access.loops[depth]].name));
      break;
    }
  }
  return found;
}

}  // namespace kope
