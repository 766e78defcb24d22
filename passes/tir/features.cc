// SPDX-License-Identifier: Apache-2.0
#include "tir/features.h"

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/dtype.h>

#include <string>

#include "tir/strides.h"

namespace kope {
namespace {

using ffi::Any;
using ffi::AnyView;

// What a parameter holds, and how many bytes of it a call moves.
struct Param {
  std::string dtype;
  double num_bytes;
};

double NumBytes(const DLDataType& dtype, double num_elements) {
  return static_cast<double>((static_cast<int64_t>(num_elements) * dtype.bits * dtype.lanes + 7) /
                             8);
}

Param Describe(AnyView var) {
  Any type = Field(var, "ty");
  if (Is(type, "ir.PrimType")) {
    DLDataType dtype = Field(type, "dtype").cast<DLDataType>();
    return {ffi::DLDataTypeToString(dtype), NumBytes(dtype, 1)};
  }
  if (!Is(type, "tirx.BufferType")) return {"handle", 0};
  DLDataType dtype = Field(Field(type, "dtype"), "dtype").cast<DLDataType>();
  double num_elements = 1;
  for (const Any& dim : Items(type, "shape")) {
    num_elements *= static_cast<double>(ConstantOr(dim, 1));
  }
  return {ffi::DLDataTypeToString(dtype), NumBytes(dtype, num_elements)};
}

// The PrimFunc to describe; null where the module holds none.
Any FindPrimFunc(const Any& node) {
  if (Is(node, "tirx.PrimFunc")) return node;
  if (!Is(node, "ir.IRModule")) return nullptr;
  Any found = nullptr;
  std::string found_name;
  for (const auto& [global_var, func] : Field(node, "functions").cast<ffi::Map<Any, Any>>()) {
    if (!Is(func, "tirx.PrimFunc")) continue;
    std::string name = Field(global_var, "name_hint").cast<ffi::String>();
    if (name == "main") return func;
    if (found_name.empty() || name < found_name) {
      found = func;
      found_name = name;
    }
  }
  return found;
}

ffi::Array<int64_t> Extents(const Block& block, bool reduce) {
  ffi::Array<int64_t> extents;
  for (const Axis& axis : block.axes) {
    if ((axis.kind == AxisKind::kReduce) == reduce) extents.push_back(axis.extent);
  }
  return extents;
}

}  // namespace

FeatureTuple Features(Any node) {
  Any func = FindPrimFunc(node);
  ffi::Array<ffi::String> dtypes;
  if (func == nullptr) {
    ffi::Array<int64_t> none;
    return FeatureTuple("other", none, none, dtypes, 0.0, 0.0, 0, none);
  }
  double num_bytes = 0;
  for (const Any& var : Items(func, "params")) {
    Param param = Describe(var);
    dtypes.push_back(param.dtype);
    num_bytes += param.num_bytes;
  }
  Function function = Collect(func);
  const Block* anchor = AnchorBlock(function);
  double flops = 0;
  for (const Block& block : function.blocks) flops += block.Flops();
  const Block& described = anchor == nullptr ? function.blocks.front() : *anchor;
  return FeatureTuple(OpClass(function, anchor), Extents(described, false),
                      Extents(described, true), dtypes, flops, num_bytes,
                      static_cast<int64_t>(function.blocks.size()) - 1, Strides(described));
}

}  // namespace kope
