// SPDX-License-Identifier: Apache-2.0
#include "tir/program.h"

#include <tvm/ffi/extra/structural_visit.h>

#include <algorithm>
#include <utility>

#include "tir/index_scope.h"

namespace kope {
namespace {

using ffi::Any;
using ffi::AnyView;
using ffi::Expected;
using ffi::WalkOrder;
using ffi::WalkResult;

constexpr int64_t kReduceAxis = 2;

// A buffer that stands for a region of another one.
struct View {
  AnyView source;
  std::vector<MaybeLinear> mins;
};

class Tracer {
 public:
  explicit Tracer(AnyView prim_func) {
    int place = 0;
    for (const Any& param : Items(prim_func, "params")) Declare(param, place++);
    body_ = Field(prim_func, "body");
    Statement(body_);
  }

  Program program;

 private:
  int Declare(AnyView buffer, int param) {
    Any type = Field(buffer, "ty");
    if (!Is(type, "tirx.BufferType")) return -1;
    Storage storage{Field(buffer, "name").cast<ffi::String>(), {}, param};
    for (const Any& dim : Items(type, "shape")) storage.shape.push_back(ConstantOr(dim, -1));
    int place = static_cast<int>(program.storages.size());
    program.storages.push_back(std::move(storage));
    storages_[Id(buffer)] = place;
    return place;
  }

  int StorageOf(AnyView buffer) {
    auto found = storages_.find(Id(buffer));
    return found == storages_.end() ? Declare(buffer, -1) : found->second;
  }

  void Statement(AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "tirx.SeqStmt") {
      for (const Any& each : Items(node, "seq")) Statement(each);
    } else if (key == "tirx.For") {
      For(node);
    } else if (key == "s_tir.SBlockRealize") {
      Realize(node);
    } else if (key == "tirx.BufferStore") {
      Store(node);
    } else if (key == "tirx.IfThenElse") {
      Branch(node);
    } else if (key == "tirx.Evaluate") {
      Reads(Field(node, "value"));
    } else if (key == "tirx.Bind") {
      Reads(Field(node, "value"));
      scope_.Bind(Field(node, "var"), scope_.Value(Field(node, "value")));
    } else {
      Rare(node, key);
    }
  }

  void Rare(AnyView node, std::string_view key) {
    if (key == "tirx.AttrStmt") {
      Statement(Field(node, "body"));
    } else if (key == "tirx.While") {
      Reads(Field(node, "condition"));
      bool outer = std::exchange(guards_.unknown, true);
      Statement(Field(node, "body"));
      guards_.unknown = outer;
    } else if (key == "tirx.AllocBuffer") {
      Declare(Field(node, "buffer"), -1);
    } else if (key != "tirx.AssertStmt") {
      program.jumps = true;
    }
  }

  void For(AnyView node) {
    Reads(Field(node, "min"));
    Reads(Field(node, "extent"));
    int64_t extent = ConstantOr(Field(node, "extent"), -1);
    MaybeLinear min = scope_.Value(Field(node, "min"));
    bool known = extent >= 0 && min && Field(node, "step") == nullptr;
    Any var = Field(node, "loop_var");
    Loop loop{Field(var, "name").cast<ffi::String>(), known ? program.digits.Add(extent) : -1,
              static_cast<LoopKind>(Field(node, "kind").cast<int64_t>()), extent == 0};
    if (known) {
      scope_.Bind(var, min->Plus({0, {{loop.digit, 1}}}));
    }
    path_.push_back(static_cast<int>(program.loops.size()));
    program.loops.push_back(loop);
    Statement(Field(node, "body"));
    path_.pop_back();
  }

  void Realize(AnyView node) {
    Any block = Field(node, "block");
    ffi::Array<Any> axes = Items(block, "iter_vars");
    ffi::Array<Any> bindings = Items(node, "iter_values");
    bool starts = true;
    for (size_t i = 0; i < axes.size(); ++i) {
      Reads(bindings[i]);
      MaybeLinear value = scope_.Value(bindings[i]);
      starts = starts && MayStart(axes[i], value);
      scope_.Bind(Field(axes[i], "var"), std::move(value));
    }
    for (const Any& each : Items(block, "alloc_buffers")) Declare(each, -1);
    for (const Any& each : Items(block, "match_buffers")) Match(each);
    Any init = Field(block, "init");
    Under(Field(node, "predicate"), false, [&] {
      if (init != nullptr && starts) Statement(init);
      Statement(Field(block, "body"));
    });
  }

  // Whether a reduction's axis reaches its first value, at which a block's `init` runs.
  bool MayStart(AnyView axis, const MaybeLinear& value) {
    if (Field(axis, "iter_type").cast<int64_t>() != kReduceAxis || !value) return true;
    MaybeLinear first = scope_.Value(Field(Field(axis, "dom"), "min"));
    if (!first || !first->terms.empty()) return true;
    Interval range = program.digits.Range(program.digits.Unsplit(*value));
    return range.low <= first->constant && first->constant <= range.high;
  }

  void Match(AnyView match) {
    Any source = Field(match, "source");
    View view{Field(source, "source"), {}};
    for (const Any& range : Items(source, "region")) {
      view.mins.push_back(scope_.Value(Field(range, "min")));
    }
    views_.emplace(Id(Field(match, "buffer")), std::move(view));
  }

  void Branch(AnyView node) {
    Any condition = Field(node, "condition");
    Reads(condition);
    Under(condition, false, [&] { Statement(Field(node, "then_case")); });
    Any other = Field(node, "else_case");
    if (other != nullptr) Under(condition, true, [&] { Statement(other); });
  }

  void Store(AnyView node) {
    for (const Any& index : Items(node, "indices")) Reads(index);
    Reads(Field(node, "value"));
    ++order_;
    Touch(Use::kWrite, Field(node, "buffer"), Items(node, "indices"));
    ++order_;
  }

  void Touch(Use use, AnyView buffer, const ffi::Array<Any>& indices) {
    std::vector<MaybeLinear> values;
    bool is_vector = false;
    for (const Any& index : indices) {
      is_vector = is_vector || Is(index, "prim.Ramp");
      values.push_back(scope_.Value(index));
    }
    Any held = buffer;
    auto view = views_.find(Id(held));
    for (; view != views_.end(); view = views_.find(Id(held))) {
      values = Through(view->second, values);
      held = view->second.source;
    }
    int storage = StorageOf(held);
    if (storage < 0) {
      program.jumps = true;
      return;
    }
    program.accesses.push_back(
        {use, storage, std::move(values), is_vector, guards_, path_, order_});
  }

  // A view's axes are the last ones of what it stands for; before them there is one element each.
  static std::vector<MaybeLinear> Through(const View& view,
                                          const std::vector<MaybeLinear>& indices) {
    std::vector<MaybeLinear> result = view.mins;
    size_t skipped = result.size() - std::min(result.size(), indices.size());
    for (size_t i = skipped; i < result.size(); ++i) {
      const MaybeLinear& index = indices[i - skipped];
      result[i] = result[i] && index ? MaybeLinear(result[i]->Plus(*index)) : std::nullopt;
    }
    return result;
  }

  // What an expression loads, each under the conditions that guard it.
  void Reads(AnyView expr) {
    if (Is(expr, "ir.IntImm") || Is(expr, "ir.FloatImm")) return;
    ffi::StructuralWalk<WalkOrder::kPreOrder>(expr, [&](AnyView node) -> Expected<WalkResult> {
      return Read(node) ? WalkResult::Advance() : WalkResult::Skip();
    });
  }

  // Whether to go on into the node's children.
  bool Read(AnyView node) {
    std::string_view key = TypeKey(node);
    if (key == "ir.Var") {
      if (Is(Field(node, "ty"), "tirx.BufferType")) Touch(Use::kOpaque, node, {});
      return false;
    }
    if (key == "ir.TensorLoad") {
      for (const Any& index : Items(node, "indices")) Reads(index);
      Touch(Use::kRead, Field(node, "source"), Items(node, "indices"));
      return false;
    }
    if (key == "prim.Select") {
      Chosen(Field(node, "condition"), Field(node, "true_value"), Field(node, "false_value"));
      return false;
    }
    if (key == "prim.And" || key == "prim.Or") {
      Any first = Field(node, "a");
      Reads(first);
      Under(first, key == "prim.Or", [&] { Reads(Field(node, "b")); });
      return false;
    }
    return key == "ir.Call" ? ReadCall(node) : true;
  }

  bool ReadCall(AnyView call) {
    Any op = Field(call, "op");
    if (!Is(op, "ir.Op")) return true;
    ffi::String name = Field(op, "name").cast<ffi::String>();
    ffi::Array<Any> args = Items(call, "args");
    if (name == "prim.if_then_else") {
      Chosen(args[0], args[1], args[2]);
      return false;
    }
    if (name == "tirx.address_of" && Is(args[0], "ir.TensorLoad")) {
      Touch(Use::kOpaque, Field(args[0], "source"), {});
      return false;
    }
    return true;
  }

  void Chosen(AnyView condition, AnyView if_true, AnyView if_false) {
    Reads(condition);
    Under(condition, false, [&] { Reads(if_true); });
    Under(condition, true, [&] { Reads(if_false); });
  }

  template <typename Callback>
  void Under(AnyView condition, bool negated, const Callback& body) {
    size_t num_outer = guards_.forms.size();
    bool outer = guards_.unknown;
    scope_.Require(condition, negated, &guards_);
    body();
    guards_.forms.resize(num_outer);
    guards_.unknown = outer;
  }

  Any body_;
  std::unordered_map<const ffi::Object*, int> storages_;
  std::unordered_map<const ffi::Object*, View> views_;
  IndexScope scope_{&program.digits};
  std::vector<int> path_;
  Guards guards_;
  int order_ = 0;
};

}  // namespace

int64_t Storage::NumElements() const {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

Program Trace(AnyView prim_func) { return std::move(Tracer(prim_func).program); }

}  // namespace kope
