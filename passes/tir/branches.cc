// SPDX-License-Identifier: Apache-2.0
// Statements whose course depends on what stands in an input: also by way of temporaries.
#include <unordered_map>
#include <utility>
#include <vector>

#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

using Params = std::set<int64_t>;

class Collector {
 public:
  explicit Collector(AnyView prim_func) {
    int64_t place = 0;
    for (const Any& param : Items(prim_func, "params")) {
      if (Is(Field(param, "ty"), "tirx.BufferType")) sources_[Id(param)].insert(place);
      ++place;
    }
    Walk(Field(prim_func, "body"), [&](AnyView node) { return Node(node); });
  }

  ffi::Array<InputBranch> Find() {
    while (Spread()) continue;
    std::set<std::pair<std::string, int64_t>> sorted;
    for (const auto& [statement, used] : decisions_) {
      for (int64_t param : SourcesOf(used)) sorted.emplace(statement, param);
    }
    ffi::Array<InputBranch> found;
    for (const auto& [statement, param] : sorted) found.push_back(InputBranch(statement, param));
    return found;
  }

 private:
  using Used = std::set<const ffi::Object*>;

  // Whether to go on into the node's children.
  bool Node(AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.IfThenElse" || key == "tirx.While") {
      Decide(key, Field(node, "condition"));
    } else if (key == "tirx.For") {
      Decide(key, Field(node, "min"));
      Decide(key, Field(node, "extent"));
    } else if (key == "s_tir.SBlockRealize") {
      Decide(key, Field(node, "predicate"));
      Bindings(node);
    } else if (key == "tirx.BufferStore") {
      Flow(Field(node, "buffer"), Field(node, "value"));
    } else if (key == "tirx.Bind") {
      Flow(Field(node, "var"), Field(node, "value"));
    } else if (key == "s_tir.MatchBufferRegion") {
      const ffi::Object* view = Id(Field(node, "buffer"));
      const ffi::Object* viewed = Id(Field(Field(node, "source"), "source"));
      flows_.emplace_back(view, Used{viewed});
      flows_.emplace_back(viewed, Used{view});
    }
    return !DerivesFrom(node, "ir.Expr");
  }

  void Bindings(AnyView realize) {
    ffi::Array<Any> axes = Items(Field(realize, "block"), "iter_vars");
    ffi::Array<Any> values = Items(realize, "iter_values");
    for (size_t i = 0; i < axes.size(); ++i) Flow(Field(axes[i], "var"), values[i]);
  }

  void Decide(std::string_view statement, AnyView expr) {
    Used used = UsedBy(expr);
    if (!used.empty()) decisions_.emplace_back(std::string(statement), std::move(used));
  }

  void Flow(AnyView target, AnyView value) {
    Used used = UsedBy(value);
    if (!used.empty()) flows_.emplace_back(Id(target), std::move(used));
  }

  // Buffers loaded and variables used.
  static Used UsedBy(AnyView expr) {
    Used used;
    if (Is(expr, "ir.IntImm")) return used;
    Walk(expr, [&](AnyView node) {
      if (!Is(node, "ir.Var")) return true;
      used.insert(Id(node));
      return false;
    });
    return used;
  }

  Params SourcesOf(const Used& used) const {
    Params params;
    for (const ffi::Object* one : used) {
      auto found = sources_.find(one);
      if (found != sources_.end()) params.insert(found->second.begin(), found->second.end());
    }
    return params;
  }

  // One step along all flows; whether it brought anything new.
  bool Spread() {
    bool changed = false;
    for (const auto& [target, used] : flows_) {
      Params params = SourcesOf(used);
      if (params.empty()) continue;
      Params& known = sources_[target];
      size_t before = known.size();
      known.insert(params.begin(), params.end());
      changed = changed || known.size() != before;
    }
    return changed;
  }

  std::unordered_map<const ffi::Object*, Params> sources_;
  std::vector<std::pair<const ffi::Object*, Used>> flows_;
  std::vector<std::pair<std::string, Used>> decisions_;
};

}  // namespace

ffi::Array<InputBranch> InputBranches(Any prim_func) { return Collector(prim_func).Find(); }

}  // namespace kope
