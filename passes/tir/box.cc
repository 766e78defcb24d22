// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <set>

#include "tir/program.h"

namespace kope {
namespace {

using Leaves = std::set<int>;

Leaves LeavesOf(const Program& program, const std::vector<int>& loops) {
  Leaves leaves;
  for (int loop : loops) {
    int digit = program.loops[loop].digit;
    if (digit < 0) continue;
    for (const auto& term : program.digits.Unsplit({0, {{digit, 1}}}).terms) {
      leaves.insert(term.first);
    }
  }
  return leaves;
}

Linear Without(const Program& program, const Linear& form, const Leaves& leaves) {
  Linear whole = program.digits.Unsplit(form);
  for (int leaf : leaves) whole.terms.erase(leaf);
  return whole;
}

// Whether the form takes every value between its least and its greatest.
bool IsDense(const Digits& digits, const Linear& form) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (const auto& [digit, coefficient] : form.terms) {
    steps.emplace_back(std::abs(coefficient), digits.Extent(digit));
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [step, extent] : steps) {
    if (step > reach + 1) return false;
    reach += step * (extent - 1);
  }
  return true;
}

class Boxer {
 public:
  Boxer(const Program& program, const Access& access, const Leaves& fixed)
      : program_(program), access_(access), fixed_(fixed) {}

  Box Make() {
    const std::vector<int64_t>& shape = program_.storages[access_.storage].shape;
    bool placed = access_.use != Use::kOpaque && access_.indices.size() == shape.size();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      AddAxis(shape[axis], placed ? access_.indices[axis] : std::nullopt);
    }
    box_.exact = box_.exact && !access_.guards.unknown && !program_.jumps;
    for (int loop : access_.loops) {
      box_.exact = box_.exact && program_.loops[loop].digit >= 0;
      box_.empty = box_.empty || program_.loops[loop].empty;
    }
    for (const Linear& form : access_.guards.forms) Clip(Without(program_, form, fixed_));
    if (access_.is_vector) Wrap(shape);
    return box_;
  }

 private:
  void AddAxis(int64_t extent, const MaybeLinear& index) {
    if (extent < 0 || !index) {
      forms_.push_back(std::nullopt);
      box_.dims.push_back({0, extent < 0 ? INT64_MAX : extent - 1});
      box_.exact = false;
      return;
    }
    Linear form = Without(program_, *index, fixed_);
    for (const auto& term : form.terms) box_.exact = used_.insert(term.first).second && box_.exact;
    box_.exact = box_.exact && IsDense(program_.digits, form);
    box_.dims.push_back(program_.digits.Range(form));
    forms_.push_back(std::move(form));
  }

  void Clip(const Linear& guard) {
    Interval range = program_.digits.Range(guard);
    if (range.low >= 0) return;
    if (range.high < 0) box_.empty = true;
    bool absorbed = false;
    for (size_t axis = 0; axis < forms_.size(); ++axis) {
      if (!forms_[axis]) continue;
      Linear sum = guard.Plus(*forms_[axis]);
      Linear difference = guard.Plus(*forms_[axis], -1);
      Interval& dim = box_.dims[axis];
      if (sum.terms.empty()) dim.high = std::min(dim.high, sum.constant);
      if (difference.terms.empty()) dim.low = std::max(dim.low, -difference.constant);
      absorbed = absorbed || sum.terms.empty() || difference.terms.empty();
      box_.empty = box_.empty || dim.low > dim.high;
    }
    box_.exact = box_.exact && absorbed;
  }

  // A vector may run on from one row into the next.
  void Wrap(const std::vector<int64_t>& shape) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] < 0 || (box_.dims[axis].low >= 0 && box_.dims[axis].high < shape[axis])) {
        continue;
      }
      box_.exact = false;
      for (size_t i = 0; i < shape.size(); ++i) {
        box_.dims[i] = {0, shape[i] < 0 ? INT64_MAX : shape[i] - 1};
      }
      return;
    }
  }

  const Program& program_;
  const Access& access_;
  const Leaves& fixed_;
  Leaves used_;
  std::vector<MaybeLinear> forms_;
  Box box_;
};

}  // namespace

Box BoxOf(const Program& program, const Access& access, const std::vector<int>& fixed) {
  Leaves leaves = LeavesOf(program, fixed);
  return Boxer(program, access, leaves).Make();
}

}  // namespace kope
