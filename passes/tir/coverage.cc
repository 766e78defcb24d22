// SPDX-License-Identifier: Apache-2.0
// Which elements of the outputs are written.
#include <algorithm>
#include <set>

#include "tir/program.h"
#include "tir/static_checks.h"

namespace kope {
namespace {

constexpr int64_t kMaxCells = 1 << 14;
constexpr int64_t kMaxPoints = 1 << 18;

using Dims = std::vector<Interval>;

Coverage Answer(int64_t param, const char* written, const Dims& missing = {}) {
  ffi::Array<int64_t> low, high;
  for (const Interval& dim : missing) {
    low.push_back(dim.low);
    high.push_back(dim.high + 1);
  }
  return Coverage(param, written, low, high);
}

// The space between the boxes' edges: every box is a union of its cells.
class Cells {
 public:
  Cells(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::set<int64_t> edges = {0, shape[axis]};
      for (const Box& box : boxes) {
        edges.insert(std::clamp<int64_t>(box.dims[axis].low, 0, shape[axis]));
        edges.insert(std::clamp<int64_t>(box.dims[axis].high + 1, 0, shape[axis]));
      }
      edges_.emplace_back(edges.begin(), edges.end());
      count_ *= static_cast<int64_t>(edges.size()) - 1;
      if (count_ > kMaxCells) return;
    }
  }

  int64_t Count() const { return count_; }

  Dims At(int64_t place) const {
    Dims cell(edges_.size());
    for (size_t axis = edges_.size(); axis-- > 0;) {
      int64_t num = static_cast<int64_t>(edges_[axis].size()) - 1;
      int64_t step = place % num;
      place /= num;
      cell[axis] = {edges_[axis][step], edges_[axis][step + 1] - 1};
    }
    return cell;
  }

 private:
  std::vector<std::vector<int64_t>> edges_;
  int64_t count_ = 1;
};

bool Contains(const Box& box, const Dims& cell) {
  for (size_t axis = 0; axis < cell.size(); ++axis) {
    if (cell[axis].low < box.dims[axis].low || cell[axis].high > box.dims[axis].high) return false;
  }
  return true;
}

// The first run of cells outside all boxes; none where they cover everything.
std::optional<Dims> FirstGap(const Cells& cells, const std::vector<Box>& boxes) {
  auto covered = [&](const Dims& cell) {
    return std::any_of(boxes.begin(), boxes.end(),
                       [&](const Box& box) { return Contains(box, cell); });
  };
  for (int64_t place = 0; place < cells.Count(); ++place) {
    Dims gap = cells.At(place);
    if (covered(gap)) continue;
    while (++place < cells.Count()) {
      Dims next = cells.At(place);
      bool same_row = std::equal(gap.begin(), gap.end() - 1, next.begin(),
                                 [](auto a, auto b) { return a.low == b.low && a.high == b.high; });
      if (!same_row || next.back().low != gap.back().high + 1 || covered(next)) break;
      gap.back().high = next.back().high;
    }
    return gap;
  }
  return std::nullopt;
}

// Writes every point that an access reaches into a map of the elements.
class Painter {
 public:
  Painter(const Program& program, const Access& access, std::vector<bool>* painted)
      : program_(program), painted_(painted) {
    const std::vector<int64_t>& shape = program.storages[access.storage].shape;
    std::set<int> digits;
    Linear place;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      forms_.push_back(program.digits.Unsplit(*access.indices[axis]));
      place = place.Times(shape[axis]).Plus(forms_[axis]);
    }
    num_axes_ = forms_.size();
    bounds_ = shape;
    for (const Linear& form : access.guards.forms) forms_.push_back(program.digits.Unsplit(form));
    forms_.push_back(std::move(place));
    for (const Linear& form : forms_) {
      for (const auto& term : form.terms) digits.insert(term.first);
    }
    digits_.assign(digits.begin(), digits.end());
  }

  int64_t NumPoints() const {
    int64_t count = 1;
    for (int digit : digits_) {
      count *= program_.digits.Extent(digit);
      if (count > kMaxPoints) return count;
    }
    return count;
  }

  void Paint() {
    std::vector<int64_t> values;
    for (const Linear& form : forms_) values.push_back(form.constant);
    Step(0, values);
  }

 private:
  void Step(size_t depth, std::vector<int64_t> values) {
    if (depth == digits_.size()) return Dot(values);
    for (int64_t i = 0; i < program_.digits.Extent(digits_[depth]); ++i) {
      Step(depth + 1, values);
      for (size_t form = 0; form < forms_.size(); ++form) {
        auto term = forms_[form].terms.find(digits_[depth]);
        if (term != forms_[form].terms.end()) values[form] += term->second;
      }
    }
  }

  void Dot(const std::vector<int64_t>& values) {
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      if (values[i] < 0 || (i < num_axes_ && values[i] >= bounds_[i])) return;
    }
    (*painted_)[values.back()] = true;
  }

  const Program& program_;
  std::vector<bool>* painted_;
  std::vector<Linear> forms_;  // of the axes, of the guards, of the place in memory
  std::vector<int64_t> bounds_;
  size_t num_axes_;
  std::vector<int> digits_;
};

bool CanPaint(const Program& program, const Access& access) {
  bool known = !access.guards.unknown && !access.is_vector && access.use == Use::kWrite;
  for (int loop : access.loops) known = known && program.loops[loop].digit >= 0;
  for (const MaybeLinear& index : access.indices) known = known && index.has_value();
  return known;
}

bool HasEmptyLoop(const Program& program, const Access& access) {
  return std::any_of(access.loops.begin(), access.loops.end(),
                     [&](int loop) { return program.loops[loop].empty; });
}

// Goes through the points one by one; none where there are too many or they are not known.
std::optional<Coverage> ByPoints(const Program& program, int64_t param,
                                 const std::vector<const Access*>& writes) {
  const Storage& storage = program.storages[writes.front()->storage];
  if (storage.NumElements() > kMaxPoints) return std::nullopt;
  std::vector<bool> painted(storage.NumElements());
  int64_t budget = kMaxPoints;
  for (const Access* write : writes) {
    if (HasEmptyLoop(program, *write)) continue;
    if (!CanPaint(program, *write)) return std::nullopt;
    Painter painter(program, *write, &painted);
    budget -= painter.NumPoints();
    if (budget < 0) return std::nullopt;
    painter.Paint();
  }
  auto gap = std::find(painted.begin(), painted.end(), false);
  if (gap == painted.end()) return Answer(param, "yes");
  int64_t place = gap - painted.begin();
  Dims missing(storage.shape.size());
  for (size_t axis = missing.size(); axis-- > 0;) {
    int64_t index = place % storage.shape[axis];
    place /= storage.shape[axis];
    missing[axis] = {index, index};
  }
  return Answer(param, "no", missing);
}

Coverage Covered(const Program& program, int64_t param, int storage_place) {
  const Storage& storage = program.storages[storage_place];
  if (storage.NumElements() == 0) return Answer(param, "yes");
  if (storage.NumElements() < 0 || program.jumps) return Answer(param, "unknown");
  std::vector<const Access*> writes;
  std::vector<Box> at_most, exactly;
  for (const Access& access : program.accesses) {
    if (access.storage != storage_place || access.use == Use::kRead) continue;
    Box box = BoxOf(program, access);
    if (box.empty) continue;
    writes.push_back(&access);
    at_most.push_back(box);
    if (box.exact) exactly.push_back(std::move(box));
  }
  Cells cells(storage.shape, at_most);
  if (cells.Count() <= kMaxCells) {
    std::optional<Dims> gap = FirstGap(cells, at_most);
    if (gap) return Answer(param, "no", *gap);
    if (!FirstGap(cells, exactly)) return Answer(param, "yes");
  }
  return ByPoints(program, param, writes).value_or(Answer(param, "unknown"));
}

}  // namespace

ffi::Array<Coverage> WriteCoverage(Any prim_func, ffi::Array<int64_t> params) {
  Program program = Trace(prim_func);
  ffi::Array<Coverage> answers;
  for (int64_t param : params) {
    auto place = std::find_if(program.storages.begin(), program.storages.end(),
                              [&](const Storage& storage) { return storage.param == param; });
    bool known = place != program.storages.end();
    answers.push_back(
        known ? Covered(program, param, static_cast<int>(place - program.storages.begin()))
              : Answer(param, "unknown"));
  }
  return answers;
}

}  // namespace kope
