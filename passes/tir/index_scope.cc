// SPDX-License-Identifier: Apache-2.0
#include "tir/index_scope.h"

#include <tvm/ffi/dtype.h>

#include <string_view>

namespace kope {
namespace {

using ffi::Any;
using ffi::AnyView;

bool IsLikely(AnyView call) {
  Any op = Field(call, "op");
  return Is(op, "ir.Op") && Field(op, "name").cast<ffi::String>() == "tirx.likely";
}

// A cast of what Value knows to be an integer, which a loaded value never is.
bool IsInteger(AnyView expr) {
  Any type = Field(expr, "ty");
  if (!Is(type, "ir.PrimType")) return false;
  DLDataType dtype = Field(type, "dtype").cast<DLDataType>();
  return (dtype.code == kDLInt || dtype.code == kDLUInt) && dtype.bits >= 32;
}

}  // namespace

void IndexScope::Bind(AnyView var, MaybeLinear value) { values_[Id(var)] = std::move(value); }

void IndexScope::Require(AnyView condition, bool negated, Guards* guards) {
  std::string_view key = TypeKey(condition);
  if (key == "ir.IntImm") {
    if ((ConstantOr(condition, 1) != 0) == negated) guards->forms.push_back({-1, {}});
  } else if (key == "prim.Not") {
    Require(Field(condition, "a"), !negated, guards);
  } else if (key == (negated ? "prim.Or" : "prim.And")) {
    Require(Field(condition, "a"), negated, guards);
    Require(Field(condition, "b"), negated, guards);
  } else if (key == "ir.Call" && IsLikely(condition)) {
    Require(Items(condition, "args")[0], negated, guards);
  } else {
    Compare(condition, key, negated, guards);
  }
}

void IndexScope::Compare(AnyView node, std::string_view key, bool negated, Guards* guards) {
  bool less = key == "prim.LT" || key == "prim.LE";
  bool more = key == "prim.GT" || key == "prim.GE";
  bool equal = key == (negated ? "prim.NE" : "prim.EQ");
  MaybeLinear lhs, rhs;
  if (less || more || equal) {
    lhs = Value(Field(node, "a"));
    rhs = Value(Field(node, "b"));
  }
  if (!lhs || !rhs) {
    guards->unknown = true;
    return;
  }
  bool strict = (key == "prim.LT" || key == "prim.GT") != negated;
  Linear slack{strict && !equal ? -1 : 0, {}};
  bool ascending = less != negated;
  if (equal || ascending) guards->forms.push_back(slack.Plus(*rhs).Plus(*lhs, -1));
  if (equal || !ascending) guards->forms.push_back(slack.Plus(*lhs).Plus(*rhs, -1));
}

MaybeLinear IndexScope::Value(AnyView expr) {
  std::string_view key = TypeKey(expr);
  if (key == "ir.IntImm") return Linear{ConstantOr(expr, 0), {}};
  if (key == "ir.Var") {
    auto found = values_.find(Id(expr));
    return found == values_.end() ? std::nullopt : found->second;
  }
  if (key == "prim.Cast") return IsInteger(expr) ? Value(Field(expr, "value")) : std::nullopt;
  if (key == "prim.Broadcast") return Value(Field(expr, "value"));
  if (key == "prim.Ramp") return RampValue(expr);
  if (key.substr(0, 5) == "prim.") return Arithmetic(expr, key);
  if (key == "ir.Call" && IsLikely(expr)) return Value(Items(expr, "args")[0]);
  return std::nullopt;
}

MaybeLinear IndexScope::RampValue(AnyView ramp) {
  MaybeLinear base = Value(Field(ramp, "base"));
  MaybeLinear stride = Value(Field(ramp, "stride"));
  int64_t lanes = ConstantOr(Field(ramp, "lanes"), -1);
  if (!base || !stride || !stride->terms.empty() || lanes < 1) return std::nullopt;
  return base->Plus({0, {{digits_->Add(lanes), 1}}}, stride->constant);
}

MaybeLinear IndexScope::Arithmetic(AnyView expr, std::string_view key) {
  bool sum = key == "prim.Add" || key == "prim.Sub";
  bool floor = key == "prim.FloorDiv" || key == "prim.FloorMod";
  bool truncated = key == "prim.Div" || key == "prim.Mod";
  if (!sum && !floor && !truncated && key != "prim.Mul") return std::nullopt;
  MaybeLinear lhs = Value(Field(expr, "a"));
  MaybeLinear rhs = lhs ? Value(Field(expr, "b")) : std::nullopt;
  if (!rhs) return std::nullopt;
  if (sum) return lhs->Plus(*rhs, key == "prim.Add" ? 1 : -1);
  if (key == "prim.Mul") {
    if (lhs->terms.empty()) return rhs->Times(lhs->constant);
    return rhs->terms.empty() ? MaybeLinear(lhs->Times(rhs->constant)) : std::nullopt;
  }
  if (!rhs->terms.empty()) return std::nullopt;
  if (truncated && digits_->Range(digits_->Unsplit(*lhs)).low < 0) {
    return std::nullopt;
  }
  auto parts = digits_->Divide(*lhs, rhs->constant);
  if (!parts) return std::nullopt;
  bool quotient = key == "prim.FloorDiv" || key == "prim.Div";
  return quotient ? parts->first : parts->second;
}

}  // namespace kope
