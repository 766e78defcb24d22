// SPDX-License-Identifier: Apache-2.0
// Elements that are read before anything wrote them.
//
// Looked at are the first and the last time that a read happens: of these it is known which
// element is read, and which writes may have come before.
#include <algorithm>
#include <set>
#include <utility>

#include "tir/program.h"
#include "tir/static_checks.h"

namespace kope {
namespace {

using Point = std::vector<int64_t>;

bool RunsInOrder(LoopKind kind) { return kind == LoopKind::kSerial || kind == LoopKind::kUnrolled; }

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program), writes_(program.storages.size()) {
    for (const Access& access : program.accesses) {
      if (access.use == Use::kRead) continue;
      writes_[access.storage].push_back({&access, BoxOf(program, access)});
    }
  }

  ffi::Array<Element> Find() {
    ffi::Array<Element> found;
    for (const Access& access : program_.accesses) {
      if (access.use != Use::kRead || IsInput(access.storage) || reported_.count(access.storage)) {
        continue;
      }
      std::optional<Point> point = Uninitialised(access);
      if (!point) continue;
      reported_.insert(access.storage);
      const Storage& storage = program_.storages[access.storage];
      found.push_back(
          Element(storage.name, storage.param, ffi::Array<int64_t>(point->begin(), point->end())));
    }
    return found;
  }

 private:
  bool IsInput(int storage) const {
    return program_.storages[storage].param >= 0 && writes_[storage].empty();
  }

  std::optional<Point> Uninitialised(const Access& read) {
    std::optional<Point> first = At(read, false);
    if (first && !MayBeWritten(read, *first, true)) return first;
    std::optional<Point> last = At(read, true);
    if (last && !MayBeWritten(read, *last, false)) return last;
    return std::nullopt;
  }

  // The element of the first or the last time; none where it is not known to happen then.
  std::optional<Point> At(const Access& read, bool last) const {
    bool known = !read.guards.unknown && !read.is_vector && !program_.jumps;
    for (int loop : read.loops) {
      known = known && program_.loops[loop].digit >= 0 && !program_.loops[loop].empty;
    }
    for (const Linear& guard : read.guards.forms) known = known && ValueAt(guard, last) >= 0;
    Point point;
    for (const MaybeLinear& index : read.indices) {
      known = known && index;
      if (known) point.push_back(ValueAt(*index, last));
    }
    return known && IsInside(read.storage, point) ? std::optional<Point>(point) : std::nullopt;
  }

  // What leaves the buffer is for another pass to find.
  bool IsInside(int storage, const Point& point) const {
    const std::vector<int64_t>& shape = program_.storages[storage].shape;
    return std::equal(point.begin(), point.end(), shape.begin(), shape.end(),
                      [](int64_t index, int64_t extent) { return index >= 0 && index < extent; });
  }

  int64_t ValueAt(const Linear& form, bool last) const {
    Linear whole = program_.digits.Unsplit(form);
    int64_t value = whole.constant;
    if (!last) return value;
    for (const auto& [digit, coefficient] : whole.terms) {
      value += coefficient * (program_.digits.Extent(digit) - 1);
    }
    return value;
  }

  bool MayBeWritten(const Access& read, const Point& point, bool first) const {
    for (const auto& [write, ever] : writes_[read.storage]) {
      if (write->use == Use::kOpaque) return true;
      if (ever.empty || !Contains(ever, point)) continue;
      if (!first) return true;
      if (write->order >= read.order) continue;
      Box box = BoxOf(program_, *write, Shared(read, *write));
      if (!box.empty && Contains(box, point)) return true;
    }
    return false;
  }

  // Loops around both that have run once when the read happens first.
  std::vector<int> Shared(const Access& read, const Access& write) const {
    std::vector<int> shared;
    for (size_t i = 0; i < std::min(read.loops.size(), write.loops.size()); ++i) {
      if (read.loops[i] != write.loops[i]) break;
      if (RunsInOrder(program_.loops[read.loops[i]].kind)) shared.push_back(read.loops[i]);
    }
    return shared;
  }

  static bool Contains(const Box& box, const Point& point) {
    for (size_t axis = 0; axis < std::min(point.size(), box.dims.size()); ++axis) {
      if (point[axis] < box.dims[axis].low || point[axis] > box.dims[axis].high) return false;
    }
    return true;
  }

  const Program& program_;
  std::vector<std::vector<std::pair<const Access*, Box>>> writes_;  // with all they may reach
  std::set<int> reported_;
};

}  // namespace

ffi::Array<Element> ReadUninitialised(Any prim_func) {
  Program program = Trace(prim_func);
  return Checker(program).Find();
}

}  // namespace kope
