// SPDX-License-Identifier: Apache-2.0
// Indices that leave their buffer whatever the data is.
#include <algorithm>

#include "tir/program.h"
#include "tir/static_checks.h"

namespace kope {
namespace {

bool SharesDigit(const Linear& lhs, const Linear& rhs) {
  return std::any_of(lhs.terms.begin(), lhs.terms.end(),
                     [&](const auto& term) { return rhs.terms.count(term.first) != 0; });
}

class Checker {
 public:
  Checker(const Program& program, const Access& access) : program_(program), access_(access) {
    for (const Linear& form : access.guards.forms) {
      Linear guard = program.digits.Unsplit(form);
      Interval range = program.digits.Range(guard);
      happens_ = happens_ && range.high >= 0;
      if (range.low < 0) guards_.push_back(std::move(guard));
    }
    happens_ = happens_ && !access.guards.unknown && access.use != Use::kOpaque;
    for (int loop : access.loops) {
      happens_ = happens_ && program.loops[loop].digit >= 0 && !program.loops[loop].empty;
    }
  }

  std::optional<OutOfBounds> Find() const {
    const Storage& storage = program_.storages[access_.storage];
    if (!happens_ || access_.indices.size() != storage.shape.size()) return std::nullopt;
    if (access_.is_vector) return InMemory(storage);
    for (size_t axis = 0; axis < storage.shape.size(); ++axis) {
      if (!access_.indices[axis] || storage.shape[axis] < 0) continue;
      Linear form = program_.digits.Unsplit(*access_.indices[axis]);
      if (auto index = Outside(form, storage.shape[axis])) {
        return OutOfBounds(storage.name, static_cast<int64_t>(axis), *index, storage.shape[axis]);
      }
    }
    return std::nullopt;
  }

 private:
  // A vector may run on from one row into the next: only the whole buffer's end counts.
  std::optional<OutOfBounds> InMemory(const Storage& storage) const {
    int64_t num_elements = storage.NumElements();
    if (num_elements < 0) return std::nullopt;
    Linear place;
    for (size_t axis = 0; axis < storage.shape.size(); ++axis) {
      if (!access_.indices[axis]) return std::nullopt;
      place = place.Times(storage.shape[axis]).Plus(*access_.indices[axis]);
    }
    auto index = Outside(program_.digits.Unsplit(place), num_elements);
    if (!index) return std::nullopt;
    return OutOfBounds(storage.name, -1, *index, num_elements);
  }

  std::optional<int64_t> Outside(const Linear& form, int64_t extent) const {
    Interval range = program_.digits.Range(form);
    for (const Linear& guard : guards_) {
      Linear sum = guard.Plus(form);
      Linear difference = guard.Plus(form, -1);
      if (sum.terms.empty()) {
        range.high = std::min(range.high, sum.constant);
      } else if (difference.terms.empty()) {
        range.low = std::max(range.low, -difference.constant);
      } else if (SharesDigit(guard, form)) {
        return std::nullopt;
      }
    }
    if (range.low > range.high) return std::nullopt;
    if (range.low < 0) return range.low;
    return range.high >= extent ? std::optional<int64_t>(range.high) : std::nullopt;
  }

  const Program& program_;
  const Access& access_;
  std::vector<Linear> guards_;
  bool happens_ = true;
};

}  // namespace

ffi::Array<OutOfBounds> IndicesOutOfBounds(Any prim_func) {
  Program program = Trace(prim_func);
  ffi::Array<OutOfBounds> found;
  if (program.jumps) return found;
  for (const Access& access : program.accesses) {
    if (auto one = Checker(program, access).Find()) found.push_back(*one);
  }
  return found;
}

}  // namespace kope
